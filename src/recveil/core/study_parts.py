"""Parts of the results of studies and searches: tables, frontiers, heat maps, trials."""

from __future__ import annotations

from typing import Any

from recveil.core.result_parts import EstimateField, Number, Part

__all__ = [
    "CellCounts",
    "ComparisonRow",
    "Failure",
    "Figure",
    "HeatCell",
    "HeatMap",
    "OverviewRow",
    "ReproducedNumber",
    "StudyComparison",
    "StudyFrontier",
    "StudyFrontierPoint",
    "StudyOverview",
    "StudyProgress",
    "StudySettings",
    "StudyTable",
    "TableColumn",
    "TableRow",
    "TunedAudit",
    "TunedLine",
    "TunedTarget",
    "TuningTrial",
]

TableValue = EstimateField | float | str | None
"""A cell of a table: an estimate, a number, a text, or nothing."""


class CellCounts(Part):
    """Cells of a study."""

    wanted: int
    done: int
    failed: int
    missing: int


class Failure(Part):
    """A cell that failed, and why."""

    cell: str
    error: str


class StudySettings(Part):
    """Settings that hold for all cells of a study."""

    k: list[int]
    folds: int
    repeats: int
    unattacked: float
    device: str
    list_length: int
    profile: str = ""
    protocol: str = "leave-one-out"
    classes: str = "all"
    joint: bool = True
    demonstrate: str = ""
    seen: str
    user_minimum: int


class TableColumn(Part):
    """How a column is headed and printed."""

    key: str
    label: str
    digits: int = 3
    signed: bool = False


class TableRow(Part):
    """One row; `cells` by the key of their column."""

    label: str
    cells: dict[str, TableValue]


class StudyTable(Part):
    """A table with its note; a missing cell is a hole."""

    id: str
    title: str
    note: str
    columns: list[TableColumn]
    rows: list[TableRow]


class StudyFrontierPoint(Part):
    """One defense: advantage, change of NDCG in per cent, whether nothing beats it, its share of the room."""

    defense: str
    advantage: EstimateField
    change: EstimateField
    best: bool
    hypervolume: Number | None


class StudyFrontier(Part):
    """The defenses of one contest; `reference` is the point that hypervolumes are measured from."""

    title: str
    reference: list[float]
    points: list[StudyFrontierPoint]
    hypervolume: float


class HeatCell(Part):
    """AUC of one shadow model against one target model."""

    shadow: str
    target: str
    auc: float


class HeatMap(Part):
    """Shadow by target, for one attack."""

    title: str
    labels: list[str]
    cells: list[HeatCell]


class Figure(Part):
    """A chart that was written to a file."""

    title: str
    path: str


class StudyProgress(Part):
    """Cells of a plan that a run left done, failed and not tried."""

    plan: str
    size: str
    folder: str
    cells: int
    done: int
    failed: int
    left: int


class OverviewRow(Part):
    """Cells of one data set, model and defense."""

    data: str
    model: str
    defense: str
    done: int
    failed: int
    missing: int


class StudyOverview(Part):
    """How far a study is; `unplanned` counts finished cells in its folder that the plan does not have."""

    plan: str
    title: str
    size: str
    cells: int
    done: int
    failed: int
    missing: int
    unplanned: int
    rows: list[OverviewRow]
    failures: list[str]


class ComparisonRow(Part):
    """One number of one combination in two studies, and the difference: second less first."""

    cell: str
    seeds: int
    target: str
    metric: str
    first: EstimateField
    second: EstimateField
    difference: EstimateField
    differs: bool


class StudyComparison(Part):
    """Two folders of results side by side: cells in both, cells equal in every number, and cells in one alone."""

    paired: int
    equal: int
    only_first: int
    only_second: int
    rows: list[ComparisonRow]


class ReproducedNumber(Part):
    """A published number beside ours, with the verdict; coordinates that do not apply are empty."""

    plan: str
    data: str = ""
    model: str = ""
    shadow: str = ""
    shadow_data: str = ""
    defense: str = ""
    target: str = ""
    of: str = ""
    panel: str = ""
    surface: str = ""
    serving: str = ""
    generator: str = ""
    leak_ratio: float | None = None
    attack: str = ""
    metric: str = ""
    value: float | None = None
    our_metric: str
    our_estimate: EstimateField | None
    seeds: int
    verdict: str
    reason: str
    run: str = ""


class TuningTrial(Part):
    """One setting of a defense and what it came to on the validation users and items."""

    options: dict[str, Any]
    advantage: float
    loss: float
    cell: str
    defended: bool


class TunedTarget(Part):
    """The advantage left on one attribute, and that of an attacker who holds the earlier table too."""

    advantage: EstimateField
    with_both_tables: EstimateField | None = None


class TunedLine(Part):
    """The chosen setting, or no defense, on users and items that the search never used."""

    targets: dict[str, TunedTarget]
    ndcg_change: EstimateField


class TunedAudit(Part):
    """The final audit of a search."""

    lines: dict[str, TunedLine]
    advice: list[str]
    errors: list[str]
