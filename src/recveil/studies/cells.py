"""A cell of a study: one combination of the plan's grid, and the id that follows from it.

Whatever decides the numbers of a cell decides its id, and nothing else does: labels, titles and notes may change
without a cell being run again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from recveil.core.option_types import Count, CountOrZero, Folds, Rate, Repeats

__all__ = ["MAX_K", "UNDEFENDED", "VERSION", "Cell", "MethodChoice", "Settings"]

VERSION = 1
"""Version of cells; raised when the same cell would come to other numbers or be stored in another form."""

MAX_K = 200
"""Largest cut-off of a ranking measure: ranks are stored in one byte each, so it must stay well under 255."""

LATER_SETTINGS = frozenset({"profile", "protocol", "classes", "joint", "demonstrate"})
"""Settings that did not exist when the first studies were run."""

UNDEFENDED = "none"
"""Name of a defense that does nothing."""


class Settings(BaseModel):
    """Settings with one value for all cells of a plan.

    Attributes:
        k: cut-offs of the ranking measures.
        folds: folds of the attribute attacks.
        repeats: repeats of cross-validation.
        unattacked: share of the users that settings were chosen on; they are not attacked.
        list_length: length of the lists in membership studies.
        user_minimum: interactions that a user must have in membership studies; 0 takes what the models need.
        profile: paper whose options the models have, such as raid2025; empty for those tuned for the data set.
        protocol: what is held out of each user and how it is ranked, such as leave-one-out or attrcloak2025.
        classes: `equal` cuts the attacked users to classes of equal size, as RAID's attackers have them.
        joint: whether the joint classes of several attributes are attacked as well.
        seen: whether lists leave out seen items in membership studies.
        demonstrate: a published mistake to commit on purpose in membership studies, such as label-leak.
        device: device to compute on; empty chooses one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    k: list[Annotated[int, Field(ge=1, le=MAX_K)]] = Field([5, 10, 20], min_length=1)
    folds: Folds = 5
    repeats: Repeats = 1
    unattacked: Rate = 0.0
    list_length: Count = 100
    user_minimum: CountOrZero = 0
    profile: str = ""
    protocol: str = "leave-one-out"
    classes: Literal["all", "equal"] = "all"
    joint: bool = True
    seen: str = "excluded"
    demonstrate: str = ""
    device: str = Field("", pattern=r"^(cpu|cuda(:\d+)?)?$")

    def list_decisive(self, names: Collection[str]) -> dict[str, Any]:
        """List the settings of these names that decide numbers.

        Settings that came later are left out at their default, so that the ids of finished cells stay as they are.
        """
        defaults = {name: Settings.model_fields[name].default for name in LATER_SETTINGS}
        settings = self.model_dump(include=set(names))
        return {name: v for name, v in settings.items() if name not in defaults or v != defaults[name]}

    @property
    def main_k(self) -> int:
        """The cut-off that tables and contests use: 10, or the last one."""
        return 10 if 10 in self.k else self.k[-1]


@dataclass(frozen=True)
class MethodChoice:
    """A model or a defense of a cell: its name, and the options that differ from the defaults."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_undefended(self) -> bool:
        """Whether it stands for no defense."""
        return self.name == UNDEFENDED


@dataclass(frozen=True, eq=False)
class Cell:
    """One combination of the grid.

    Attributes:
        kind: attribute, membership or trial.
        at: the coordinates by axis of the grid, as they are stored and hashed.
        settings: the settings that decide the numbers of this kind, as they are stored and hashed.
        labels: names of models and defenses in tables.
    """

    kind: str
    at: Mapping[str, Any]
    settings: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """Hash of everything that decides the numbers."""
        content = {"version": VERSION, "kind": self.kind, "at": dict(self.at), "settings": dict(self.settings)}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def rules(self) -> Settings:
        """The settings, typed."""
        return Settings.model_validate(dict(self.settings))

    @property
    def data(self) -> str:
        """Name of the data set."""
        return str(self.at["data"])

    @property
    def target(self) -> str:
        """Attributes to protect, joined by +, of a cell that attacks attributes."""
        return str(self.at["target"])

    @property
    def seed(self) -> int:
        """Seed of the model, the defense and the folds."""
        return int(self.at["seed"])

    @property
    def device(self) -> str | None:
        """Device to compute on; None chooses one."""
        return self.settings["device"] or None

    def choice(self, axis: str) -> MethodChoice:
        """Return the model or defense on this axis of the grid."""
        return MethodChoice(self.at[axis]["name"], self.at[axis]["options"])

    def label(self, axis: str) -> str:
        """Return what tables call the coordinate on this axis."""
        return self.labels.get(axis) or str(self.at[axis])

    def to_dict(self) -> dict[str, Mapping[str, Any] | str]:
        """Return the cell as it is stored."""
        return {"kind": self.kind, "at": self.at, "settings": self.settings, "labels": self.labels}

    @classmethod
    def from_dict(cls, content: object) -> Self:
        """Read a stored cell.

        Raises:
            ValueError: the content is no cell.
        """
        if not isinstance(content, Mapping):
            raise ValueError("a cell must be an object")
        parts = [content.get(key) for key in ("at", "settings", "labels")]
        if not isinstance(content.get("kind"), str) or not all(isinstance(part, Mapping) for part in parts):
            raise ValueError("a cell needs kind, at, settings and labels")
        return cls(content["kind"], content["at"], content["settings"], content["labels"])
