"""A study plan: TOML in, cells out.

plan = read_plan("research/plans/raid2025_table2.toml", size="smoke")
for cell in plan.cells(): ...
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from recveil.core.errors import UsageError, unknown_name
from recveil.core.option_types import LeakRatio, SeedNumber
from recveil.studies.cells import UNDEFENDED, Cell, Settings

__all__ = ["KINDS", "MAX_CELLS", "SIZES", "ChosenMethod", "Plan", "Published", "read_plan"]

SIZES = ("full", "smoke")
MAX_CELLS = 100_000
"""Cells that a plan may have; more are a slip in the grid, and would not end."""

StudyKind = Literal["attribute", "membership"]
Axis = Sequence[Any]
ModelT = TypeVar("ModelT", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class ChosenMethod(BaseModel):
    """A model or a defense in a plan: its name, its label in tables, and its options, which are all other keys."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    label: str = ""

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        for option, value in self.options.items():
            if not _is_plain(value):
                raise ValueError(f"option '{option}' must be text, a finite number, true or false, or a list of these")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """Options that differ from the defaults."""
        return dict(sorted((self.model_extra or {}).items()))

    @property
    def title(self) -> str:
        """The name in tables: the label, else the name with the options in brackets."""
        options = ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in self.options.items())
        return self.label or (f"{self.name} ({options})" if options else self.name)

    def to_coordinate(self) -> dict[str, Any]:
        """Return what decides numbers: name and options."""
        return {"name": self.name, "options": self.options}


def _parse_method(entry: object) -> object:
    return {"name": entry} if isinstance(entry, str) else entry


def _parse_surface(entry: object) -> object:
    return "vectors" if entry == "user_vectors" else entry


def _read_default_attacks() -> list[str]:
    text = files("recveil.studies").joinpath("plan_defaults.toml").read_text(encoding="utf-8")
    attacks: list[str] = tomllib.loads(text)["membership"]["attack"]
    return attacks


Method = Annotated[ChosenMethod, BeforeValidator(_parse_method)]
Surface = Annotated[str, BeforeValidator(_parse_surface)]


class AttributeGrid(_Strict):
    """Axes that are crossed when attributes are attacked."""

    data: list[str]
    model: list[Method]
    defense: list[Method] = [ChosenMethod(name=UNDEFENDED)]
    target: list[str]
    panel: list[str] = ["fast"]
    surface: list[Surface] = ["vectors"]
    leak_ratio: list[LeakRatio] = [0.8]
    seed: list[SeedNumber] = [0]


class MembershipGrid(_Strict):
    """Axes that are crossed when membership is attacked."""

    data: list[str]
    target: list[Method]
    shadow: list[Method]
    serving: list[str] = ["fold-in"]
    attack: list[str] = Field(default_factory=_read_default_attacks)
    defense: list[Method] = [ChosenMethod(name=UNDEFENDED)]
    generator: list[str] = ["factors"]
    shadow_data: list[str] = [""]
    seed: list[SeedNumber] = [0]


class Published(_Strict):
    """A number of a paper, to be set beside ours; names are labels of the plan.

    Attributes:
        of: the attacked attribute, where the target is several at once; the first by default.
        ours: our measure, where it is not the paper's.
        undefended: what the paper prints for the undefended model, where another table of it does.
        note: what to know of the number.
        calibrated: whether a strength of ours was chosen by this number, which then is no finding.
        artifact: how the paper came to it, where that is shown to be a fault of the protocol.
        setting: what is done otherwise here; the plan's own sentence by default.
        unavailable: why it cannot be obtained.
    """

    data: str = ""
    model: str = ""
    defense: str = ""
    target: str = ""
    panel: str = ""
    surface: str = ""
    leak_ratio: float | None = None
    shadow: str = ""
    shadow_data: str = ""
    serving: str = ""
    generator: str = ""
    metric: str = ""
    attack: str = ""
    value: float | None = None
    ours: str = ""
    of: str = ""
    undefended: float | None = None
    note: str = ""
    calibrated: bool = False
    artifact: str = ""
    setting: str = ""
    unavailable: str = ""


class _Document(_Strict):
    title: str
    source: str = ""
    about: str = ""
    setting: str = ""
    kind: StudyKind
    grid: dict[str, Any]
    settings: dict[str, Any] = {}
    smoke: dict[str, Any] = {}
    published: list[Published] = []


@dataclass(frozen=True)
class _Kind:
    """The grid of a kind of study, and the settings that decide its numbers."""

    grid: type[AttributeGrid] | type[MembershipGrid]
    settings: frozenset[str]


KINDS: Mapping[str, _Kind] = {
    "attribute": _Kind(
        AttributeGrid,
        frozenset({"k", "folds", "repeats", "unattacked", "profile", "protocol", "classes", "joint", "device"}),
    ),
    "membership": _Kind(MembershipGrid, frozenset({"list_length", "user_minimum", "seen", "demonstrate", "device"})),
}


@dataclass(frozen=True, eq=False)
class Plan:
    """A plan at one size.

    `setting` says what is done otherwise than in the paper; `raw` is the document as it was read.
    """

    name: str
    size: str
    title: str
    source: str
    about: str
    kind: StudyKind
    grid: AttributeGrid | MembershipGrid
    settings: Settings
    published: list[Published]
    setting: str
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def parse(cls, raw: Mapping[str, Any], *, name: str, size: str = "full") -> Self:
        """Read a plan from its document.

        Args:
            raw: the document, as TOML or JSON has it.
            name: name of the plan, for errors and reports.
            size: "full", or "smoke" for the size that the plan's [smoke] makes.

        Raises:
            UsageError: the first thing that is wrong with the plan, in one sentence.
        """
        if size not in SIZES:
            raise unknown_name("size", size, SIZES)
        document = _validate(_Document, raw, name)
        shape = KINDS[document.kind].grid
        known = {*shape.model_fields, *Settings.model_fields}
        for key in document.smoke:
            if key not in known:
                raise _unknown_key(name, "smoke", key, known)
        changes = document.smoke if size == "smoke" else {}
        return cls(
            name=name,
            size=size,
            title=document.title,
            source=document.source,
            about=document.about,
            kind=document.kind,
            grid=_validate(shape, {**document.grid, **_select_keys(changes, shape)}, name, "grid"),
            settings=_validate(Settings, {**document.settings, **_select_keys(changes, Settings)}, name, "settings"),
            published=document.published,
            setting=document.setting,
            raw=raw,
        )

    def cells(self) -> list[Cell]:
        """Return every combination of the grid, each once."""
        axes = {axis: getattr(self.grid, axis) for axis in type(self.grid).model_fields}
        empty = [axis for axis, values in axes.items() if not values]
        if empty:
            raise UsageError(f"The plan {self.name} comes to no cells: {empty[0]} is an empty list. Name at least one.")
        n_cells = math.prod(map(len, axes.values()))
        if n_cells > MAX_CELLS:
            raise UsageError(
                f"The plan {self.name} comes to {n_cells:,} cells, and at most {MAX_CELLS:,} are run as one study. "
                "Shorten its lists, or split it into several plans."
            )
        _check_distinct(self.name, axes)
        settings = self.settings.list_decisive(KINDS[self.kind].settings)
        return [self._make_cell(dict(zip(axes, values, strict=True)), settings) for values in product(*axes.values())]

    def _make_cell(self, at: Mapping[str, Any], settings: Mapping[str, Any]) -> Cell:
        labels = {axis: v.title for axis, v in at.items() if isinstance(v, ChosenMethod)}
        at = {axis: v for axis, v in at.items() if axis != "shadow_data" or v}  # ids of older cells stay as they are
        return Cell(self.kind, {axis: _to_coordinate(v) for axis, v in at.items()}, settings, labels)


def read_plan(path: str | Path, size: str = "full") -> Plan:
    """Read the plan in this file, at full size or as small as its [smoke] makes it.

    Both sizes are checked, so that a mistake in one is found whichever is asked for.
    """
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read the plan {path}: {error.strerror}. Name a TOML file.") from error
    except RecursionError:
        raise UsageError(f"The plan {path} is not TOML: it is nested too deeply. Correct it.") from None
    except ValueError as error:  # TOML, UTF-8, or a number of thousands of digits
        raise UsageError(f"The plan {path} is not TOML: {error}. Correct that line.") from error
    for each in SIZES:
        Plan.parse(raw, name=path.stem, size=each)
    return Plan.parse(raw, name=path.stem, size=size)


def _is_plain(value: object) -> bool:
    """Return whether JSON can hold the value as it is: options are part of a cell's id."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(map(_is_plain, value.values()))
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int)


def _select_keys(changes: Mapping[str, Any], model: type[BaseModel]) -> Mapping[str, Any]:
    return {key: value for key, value in changes.items() if key in model.model_fields}


def _to_coordinate(value: object) -> object:
    return value.to_coordinate() if isinstance(value, ChosenMethod) else value


def _check_distinct(name: str, axes: Mapping[str, Axis]) -> None:
    """Refuse an entry that is in an axis twice, and two entries that tables would call the same."""
    for axis, values in axes.items():
        titles, coordinates = set[str](), set[str]()
        for value in values:
            title = value.title if isinstance(value, ChosenMethod) else str(value)
            coordinate = json.dumps(_to_coordinate(value), sort_keys=True)
            if title in titles or coordinate in coordinates:
                raise UsageError(f"The plan {name} has '{title}' twice in {axis}. Leave one out, or label them apart.")
            titles.add(title)
            coordinates.add(coordinate)


def _validate(model: type[ModelT], content: Mapping[str, Any], name: str, part: str = "") -> ModelT:
    """Check a part of the document; the first mistake is one sentence."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # An unknown key comes first: it is often why another one is missing.
        first = min(error.errors(include_url=False), key=lambda mistake: mistake["type"] != "extra_forbidden")
        steps = [str(step) for step in first["loc"]]
        if first["type"] == "extra_forbidden":
            known = Published.model_fields if steps[0] == "published" else model.model_fields
            raise _unknown_key(name, part or ".".join(steps[:-1]), steps[-1], known) from None
        place = ".".join([*([part] if part else []), *steps])
        raise UsageError(f"The plan {name} cannot be used: {place}: {first['msg'].lower()}.") from None


def _unknown_key(name: str, part: str, key: str, known: Iterable[str]) -> UsageError:
    return unknown_name(f"key of {f'[{part}] in ' if part else ''}the plan {name}", key, known)
