"""What a study keeps of a cell: records, details for pooling seeds, seconds, or the error that it failed with.

These types are the form of the files in a folder of results. A file that does not fit them is one clear error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from recveil.core.result_parts import EstimateField, Number
from recveil.core.types import Estimate, Record
from recveil.studies.cells import VERSION, Cell

__all__ = [
    "AttributeDetails",
    "CellFailure",
    "CellResult",
    "CellTiming",
    "Details",
    "Measurement",
    "MembershipDetails",
    "StoredAttack",
    "StoredRate",
    "StoredTarget",
    "TrialDetails",
    "round_numbers",
]

SIGNIFICANT_DIGITS = 10
"""Digits that are stored: the ones beyond are rounding error and differ between machines."""

PackedRanks = Annotated[str, Field(pattern=r"^([0-9a-f]{2})*$")]


class _Stored(BaseModel):
    """Base of stored parts: keys of other versions are ignored, missing optional ones have defaults."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=True, populate_by_name=True)


class StoredTarget(_Stored):
    """The audit of one attribute; `folds` is the signed advantage of the headline on each fold."""

    folds: list[float]
    chosen: dict[str, float] = {}
    p_value: Number = math.nan
    verdict: str = ""
    sentence: str = ""
    chance: float | None = None
    n: int
    counts: dict[str, int] = {}
    resolution: Number = math.nan
    detectable: Number = math.nan
    notes: list[str] = []


class AttributeDetails(_Stored):
    """Details of a cell that attacks attributes.

    Attributes:
        ranks: ranks of the test items under the release, packed.
        base: ranks of the test items under the undefended model, packed.
        held_out: number of test items of each user, packed; empty where every user has one.
        test_share: attacked users of a fold as a share of the known users.
        targets: audits of the attributes, and of their joint classes.
        two_releases: audits by attackers who hold the undefended table as well.
    """

    ranks: PackedRanks
    base: PackedRanks
    held_out: PackedRanks = ""
    test_share: float = Field(gt=0)
    targets: dict[str, StoredTarget]
    two_releases: dict[str, StoredTarget] = {}


class StoredRate(_Stored):
    """Share of members found at a false positive rate, with the rate that was realized."""

    value: Number
    low: Number
    high: Number
    n: int
    fpr: float
    realized_fpr: EstimateField


class StoredAttack(_Stored):
    """What one membership attack, or one rule, reached; `rule` tells them apart."""

    auc: EstimateField | None = None
    tpr_at_fpr: dict[str, StoredRate | None] = {}
    balanced_accuracy: EstimateField | None = None
    threshold: Number = math.nan
    rule: bool
    inverted: bool = False
    ahead_of_rules: EstimateField | None = None
    explained: str = ""


class MembershipDetails(_Stored):
    """Details of a cell that attacks membership; `static_attacks` did not know of the defense."""

    about: Mapping[str, object] = {}
    notes: list[str] = []
    attacks: dict[str, StoredAttack]
    n: int | None = None
    members: int | None = None
    static_attacks: dict[str, StoredAttack] = Field({}, alias="attacks, static")


class TrialDetails(_Stored):
    """Details of a cell that tries one setting: headline advantages by fold of each attribute, and users attacked."""

    folds: dict[str, list[float]]
    users: int


Details = AttributeDetails | MembershipDetails | TrialDetails
DETAILS: Mapping[str, type[Details]] = {
    "attribute": AttributeDetails,
    "membership": MembershipDetails,
    "trial": TrialDetails,
}


class CellTiming(_Stored):
    """Seconds of each step, the machine, and the engine that ran the cell."""

    seconds: dict[str, float] = {}
    machine: dict[str, str | int | None] = {}
    engine: str = ""


class CellFailure(_Stored):
    """The error of a cell that failed; `foreseen` ones come from the plan or the data, not from a fault."""

    error: str
    traceback: str = ""
    foreseen: bool = False


@dataclass(frozen=True, eq=False)
class Measurement:
    """Records and details of a cell, and the seconds of each step."""

    records: Sequence[Record]
    details: Details
    seconds: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class CellResult:
    """A measured cell. The same cell gives the same JSON, wherever it is run."""

    cell: Cell
    records: Sequence[Record]
    details: Details

    @property
    def attribute_details(self) -> AttributeDetails:
        """Details of a cell that attacks attributes."""
        assert isinstance(self.details, AttributeDetails)
        return self.details

    @property
    def membership_details(self) -> MembershipDetails:
        """Details of a cell that attacks membership."""
        assert isinstance(self.details, MembershipDetails)
        return self.details

    def to_json(self) -> str:
        """Return the content of the cell's file."""
        records = [replace(record, cell=self.cell.id).to_dict() for record in self.records]
        details = self.details.model_dump(mode="json", by_alias=True, exclude_unset=True)
        content = round_numbers({"cell": self.cell.to_dict(), "records": records, "details": details})
        return json.dumps({"version": VERSION, **content}, indent=1, allow_nan=False) + "\n"

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> Self:
        """Read the content of a cell's file.

        Raises:
            ValueError: the content is no cell of this version.
        """
        cell = Cell.from_dict(content.get("cell"))
        if cell.kind not in DETAILS or not isinstance(cell.at.get("seed"), int):
            raise ValueError("cell: unknown kind, or no seed")
        records = content.get("records")
        if not isinstance(records, list):
            raise ValueError("records: a list is needed")
        details = DETAILS[cell.kind].model_validate(content.get("details"))
        return cls(cell, [_parse_record(record) for record in records], details)


def round_numbers(value: Any) -> Any:
    """Return the same plain values with floats to ten digits; what is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): round_numbers(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [round_numbers(inside) for inside in value]
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None
    return value


def _parse_record(content: object) -> Record:
    try:
        fields = dict(content)  # type: ignore[call-overload]
        record = Record(**{**fields, "estimate": Estimate.from_dict(fields["estimate"])})
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"records: {type(error).__name__}: {error}") from None
    texts = {name: value for name, value in asdict(record).items() if name not in ("seed", "estimate")}
    if not isinstance(record.seed, int) or not all(isinstance(value, str) for value in texts.values()):
        raise ValueError("records: names must be text and the seed a whole number")
    return record
