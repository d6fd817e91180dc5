"""A study plan: TOML in, cells out. What decides a cell's numbers decides its name, and nothing else does.

plan = read("research/plans/raid2025_table2.toml", size="smoke")
for cell in plan.cells(): ...
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from recveil.core.errors import UsageError, unknown_name

__all__ = ["KINDS", "SIZES", "VERSION", "Cell", "Choice", "Plan", "Published", "Settings", "read_plan"]

VERSION = 1
"""Of what a cell is: raised when the same cell would come to other numbers or another form."""

SIZES = ("full", "smoke")
MAX_K = 200
"""Ranks are kept in a byte each, so no cut-off may be near 255."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(BaseModel):
    """A model or a defense: its name, what tables call it, and its options, which are all other keys."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    label: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """Hyper-parameters that differ from the defaults."""
        return dict(sorted((self.model_extra or {}).items()))

    @property
    def title(self) -> str:
        """What tables call it: the label, else the name with the options in brackets."""
        told = ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in self.options.items())
        return self.label or (f"{self.name} ({told})" if told else self.name)

    def to_dict(self) -> dict[str, Any]:
        """What decides numbers: name and options."""
        return {"name": self.name, "options": self.options}


Chosen = Annotated[Choice, BeforeValidator(lambda given: {"name": given} if isinstance(given, str) else given)]
Surface = Annotated[str, BeforeValidator(lambda given: "vectors" if given == "user_vectors" else given)]


class AttributeGrid(_Strict):
    """What is crossed when attributes are attacked."""

    data: list[str]
    model: list[Chosen]
    defense: list[Chosen] = [Choice(name="none")]
    target: list[str]
    panel: list[str] = ["fast"]
    surface: list[Surface] = ["vectors"]
    leak_ratio: list[Annotated[float, Field(gt=0, lt=1)]] = [0.8]
    seed: list[Annotated[int, Field(ge=0)]] = [0]


class MembershipGrid(_Strict):
    """What is crossed when membership is attacked."""

    data: list[str]
    target: list[Chosen]
    shadow: list[Chosen]
    serving: list[str] = ["fold-in"]
    attack: list[str] = ["dlmia,biased"]
    defense: list[Chosen] = [Choice(name="none")]
    generator: list[str] = ["factors"]
    seed: list[Annotated[int, Field(ge=0)]] = [0]


class Settings(_Strict):
    """One value for the whole plan; `unattacked` is the share of users that settings were chosen by.

    Of membership alone: places of a list, interactions a user must have (0: as the models need), and whether lists
    leave out what was touched.
    """

    k: list[Annotated[int, Field(ge=1, le=MAX_K)]] = Field([5, 10, 20], min_length=1)
    folds: int = Field(5, ge=2)
    repeats: int = Field(1, ge=1)
    unattacked: float = Field(0.0, ge=0, lt=1)
    list_length: int = Field(100, ge=1)
    user_minimum: int = Field(0, ge=0)
    seen: str = "excluded"
    device: str = Field("", pattern=r"^(cpu|cuda(:\d+)?)?$")


class Published(_Strict):
    """A number of a paper, to be set beside ours; names are labels of the plan."""

    data: str = ""
    model: str = ""
    defense: str = ""
    target: str = ""
    panel: str = ""
    surface: str = ""
    leak_ratio: float | None = None
    shadow: str = ""
    serving: str = ""
    generator: str = ""
    metric: str = ""
    attack: str = ""
    value: float | None = None
    ours: str = ""
    note: str = ""
    unavailable: str = ""


class _Document(_Strict):
    title: str
    source: str = ""
    about: str = ""
    kind: Literal["attribute", "membership"]
    grid: dict[str, Any]
    settings: dict[str, Any] = {}
    smoke: dict[str, Any] = {}
    published: list[Published] = []


KINDS: dict[str, tuple[type[AttributeGrid] | type[MembershipGrid], tuple[str, ...]]] = {
    "attribute": (AttributeGrid, ("k", "folds", "repeats", "unattacked", "device")),
    "membership": (MembershipGrid, ("list_length", "user_minimum", "seen", "device")),
}
"""Kind -> its grid, and the settings that decide its numbers."""


@dataclass(frozen=True, eq=False)
class Cell:
    """One combination of the grid. `at` says which, in plain values; `labels` what tables call it."""

    kind: str
    at: Mapping[str, Any]
    settings: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """Of all that decides the numbers, and of no label."""
        content = {"version": VERSION, "kind": self.kind, "at": dict(self.at), "settings": dict(self.settings)}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def label(self, key: str) -> str:
        """What tables call this coordinate."""
        return self.labels.get(key) or str(self.at[key])

    @property
    def seed(self) -> int:
        """Of model, defense and folds."""
        return int(self.at["seed"])

    @property
    def device(self) -> str | None:
        """Where it is computed; None is what is there."""
        return self.settings["device"] or None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"kind": self.kind, "at": self.at, "settings": self.settings, "labels": self.labels}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Back from JSON."""
        return cls(given["kind"], given["at"], given["settings"], given["labels"])


@dataclass(frozen=True, eq=False)
class Plan:
    """A plan at one size; `raw` is the document as it was read."""

    name: str
    size: str
    title: str
    source: str
    about: str
    kind: str
    grid: AttributeGrid | MembershipGrid
    settings: Settings
    published: list[Published]
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def parse(cls, raw: Mapping[str, Any], *, name: str, size: str = "full") -> Self:
        """The plan of this document; whatever is wrong with it is said in one sentence."""
        if size not in SIZES:
            raise unknown_name("size", size, SIZES)
        document = _validate(_Document, raw, name)
        shape, own = KINDS[document.kind]
        known = {*shape.model_fields, *Settings.model_fields}
        for key in document.smoke:
            if key not in known:
                raise _unknown_key(name, "smoke", key, known)
        changed = document.smoke if size == "smoke" else {}
        parts = {"grid": (shape, document.grid), "settings": (Settings, document.settings)}
        made = {
            part: _validate(
                model, {**given, **{k: v for k, v in changed.items() if k in model.model_fields}}, name, part
            )
            for part, (model, given) in parts.items()
        }
        head = (document.title, document.source, document.about, document.kind)
        return cls(name, size, *head, **made, published=document.published, raw=raw)

    def cells(self) -> list[Cell]:
        """Every combination, each once."""
        lists = {key: getattr(self.grid, key) for key in type(self.grid).model_fields}
        empty = [key for key, values in lists.items() if not values]
        if empty:
            raise UsageError(f"The plan {self.name} comes to no cells: {empty[0]} is an empty list. Name at least one.")
        _check_distinct(self.name, lists)
        settings = self.settings.model_dump(include=set(KINDS[self.kind][1]))
        return [self._make_cell(dict(zip(lists, values, strict=True)), settings) for values in product(*lists.values())]

    def _make_cell(self, at: Mapping[str, Any], settings: Mapping[str, Any]) -> Cell:
        labels = {key: v.title for key, v in at.items() if isinstance(v, Choice)}
        plain = {key: v.to_dict() if isinstance(v, Choice) else v for key, v in at.items()}
        return Cell(self.kind, plain, settings, labels)


def read_plan(path: str | Path, size: str = "full") -> Plan:
    """The plan in this file, at full size or as small as the tests need it."""
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read the plan {path}: {error.strerror}. Name a TOML file.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The plan {path} is not TOML: {error}. Mend that line.") from error
    for each in SIZES:  # what is wrong with one size is said whichever is asked for
        Plan.parse(raw, name=path.stem, size=each)
    return Plan.parse(raw, name=path.stem, size=size)


def _check_distinct(name: str, lists: Mapping[str, Iterable[Any]]) -> None:
    """No entry twice, and no two entries that tables would call the same."""
    for key, values in lists.items():
        seen: dict[str, Any] = {}
        for value in values:
            title = value.title if isinstance(value, Choice) else str(value)
            same = [t for t, v in seen.items() if v == (value.to_dict() if isinstance(value, Choice) else value)]
            if title in seen or same:
                raise UsageError(f"The plan {name} has '{title}' twice in {key}. Leave one out, or label them apart.")
            seen[title] = value.to_dict() if isinstance(value, Choice) else value


def _validate(model: type[Any], given: Mapping[str, Any], name: str, part: str = "") -> Any:
    """The document or a part of it as pydantic has it; the first thing that is wrong as one sentence."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        # A key that does not exist comes first: it is often why another one is missing.
        first = min(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
        where = [str(step) for step in first["loc"]]
        if first["type"] == "extra_forbidden":
            known = Published.model_fields if where[0] == "published" else model.model_fields
            raise _unknown_key(name, part or ".".join(where[:-1]), where[-1], known) from None
        place = ".".join([*([part] if part else []), *where])
        raise UsageError(f"The plan {name} cannot be used: {place}: {first['msg'].lower()}.") from None


def _unknown_key(name: str, part: str, key: str, known: Iterable[str]) -> UsageError:
    return unknown_name(f"key of {f'[{part}] in ' if part else ''}the plan {name}", key, known)
