"""Published numbers beside ours: what we measured, with its interval, and whether it is the same."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recveil.core.errors import UsageError, unknown_name
from recveil.core.study_parts import ReproducedNumber
from recveil.core.types import Estimate
from recveil.report.study_text import escape_markdown, write_markdown_table
from recveil.studies.membership_tables import estimate_metric
from recveil.studies.plans import Plan, Published, read_plan
from recveil.studies.pooled_seeds import MEASURES, PooledCell, pool_plan
from recveil.studies.store import STUDY_FILE, Store, open_store

__all__ = ["VERDICTS", "PublishedComparison", "compare_published", "open_stores", "write_reproduction"]

REPRODUCED, DIFFERENT, NOT_RUN, UNAVAILABLE = "reproduced", "different", "not run", "data not available here"
VERDICTS = (REPRODUCED, DIFFERENT, NOT_RUN, UNAVAILABLE)
MAX_SCORE_GAP, MAX_RANKING_GAP_SHARE = 0.03, 0.10
"""How near an attack score and a ranking measure must come where the interval is narrower still."""

NO_REASON = "no reason known; the paper prints no interval (EVALUATION 8)"
COORDINATES = (
    "data",
    "model",
    "shadow",
    "shadow_data",
    "defense",
    "target",
    "panel",
    "surface",
    "serving",
    "generator",
)
SHOWN_COORDINATES = (
    "data", "model", "shadow", "shadow_data", "defense", "target", "serving", "generator", "leak_ratio", "attack",
)  # fmt: skip

RULE = f"""**Reproduced**: the paper's value lies within our 95 % interval, or within {MAX_SCORE_GAP:g} of ours (attack
scores) or {100 * MAX_RANKING_GAP_SHARE:g} % of ours (ranking measures). **Different**: neither; the reason is a known
difference in the method, not a proven cause. EVALUATION 1 to 8 are the eight ways in which earlier numbers went wrong,
each with a test (`tests/test_eight_ways.py`). Seconds are of other machines and never count as reproduced. Ours is in
the paper's own measure where we have it, else in the nearest one, which is named. A note beside a reproduced number
says what it means."""


@dataclass(frozen=True, eq=False)
class PublishedComparison:
    """One published number, ours, and the verdict."""

    plan: str
    published: Published
    ours: Estimate | None
    metric: str
    seeds: int
    verdict: str

    @property
    def reason(self) -> str:
        """Why it differs or is missing, or what to know of it."""
        if self.published.unavailable or self.verdict == NOT_RUN:
            return self.published.unavailable
        return self.published.note or (NO_REASON if self.verdict == DIFFERENT else "")

    def to_result(self) -> ReproducedNumber:
        """Return the comparison as a part of a result."""
        return ReproducedNumber(
            plan=self.plan,
            **self.published.model_dump(exclude={"ours", "note", "unavailable"}),
            our_metric=self.metric,
            our_estimate=self.ours,
            seeds=self.seeds,
            verdict=self.verdict,
            reason=self.reason,
        )


def open_stores(folder: str | Path) -> list[Store]:
    """Open the folder of results, or all that lie in it."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. Name the one that holds the folders of results.")
    if (folder / STUDY_FILE).is_file():
        return [open_store(folder)]
    names = sorted(entry.name for entry in os.scandir(folder) if (Path(entry.path) / STUDY_FILE).is_file())
    return [open_store(folder / name) for name in names]


def compare_published(plan: Plan, stores: Sequence[Store]) -> list[PublishedComparison]:
    """Compare every published number of a plan with ours.

    Raises:
        UsageError: a published number names no cell of the plan.
    """
    pooled = pool_plan(plan, stores) if any(not number.unavailable for number in plan.published) else []
    return [_compare_number(plan, published, pooled) for published in plan.published]


def _compare_number(plan: Plan, published: Published, pooled: Sequence[PooledCell]) -> PublishedComparison:
    metric = published.ours or published.metric
    if published.unavailable:
        return PublishedComparison(plan.name, published, None, metric, 0, UNAVAILABLE)
    candidates = [cells for cells in pooled if _is_about(published, cells)]
    if not candidates:
        names = ", ".join(str(v) for v in published.model_dump(exclude_defaults=True).values())
        raise UsageError(f"The plan {plan.name} has no cell for its published number ({names}). Correct its names.")
    for cells in candidates:
        ours = _find_ours(cells, published, metric) if cells.results else None
        if ours is not None:
            verdict = REPRODUCED if _is_reproduced(published, ours) else DIFFERENT
            return PublishedComparison(plan.name, published, ours, metric, len(cells.results), verdict)
    return PublishedComparison(plan.name, published, None, metric, 0, NOT_RUN)


def _is_about(published: Published, cells: PooledCell) -> bool:
    """Return whether the published number belongs to this combination: every coordinate it names is the same."""
    named = {axis: getattr(published, axis) for axis in COORDINATES}
    ratio = published.leak_ratio
    return all(not label or cells.at.get(axis) == label for axis, label in named.items()) and (
        ratio is None or cells.at.get("leak_ratio") == str(ratio)
    )


def _find_ours(cells: PooledCell, published: Published, metric: str) -> Estimate | None:
    """Find our number in this measure; None where the results have none."""
    if metric == "seconds":
        seconds = cells.average_seconds("train") or cells.average_seconds("defend")
        return None if seconds is None else Estimate(seconds, float("nan"), float("nan"), len(cells.results))
    if cells.kind == "membership":
        return estimate_metric(cells, published.attack, metric)
    measure, _, k = metric.partition("@")
    if measure in MEASURES and k.isdigit():
        return cells.estimate_ranking(measure, int(k)) if int(k) in cells.settings.k else None
    return cells.estimate_attack(published.target.split("+")[0], published.attack, metric)


def _is_reproduced(published: Published, ours: Estimate) -> bool:
    """Judge by the rule that the page prints (`RULE`)."""
    if published.value is None or published.metric == "seconds":
        return False
    gap, is_ranking = abs(published.value - ours.value), "@" in published.metric
    is_near = gap <= MAX_RANKING_GAP_SHARE * abs(ours.value) if is_ranking else gap <= MAX_SCORE_GAP + 1e-12
    return is_near or ours.low <= published.value <= ours.high


def write_reproduction(
    plans: str | Path, results: str | Path, paper: str = ""
) -> tuple[str, list[PublishedComparison]]:
    """Write the page, Markdown; return it with its numbers. Plans without published numbers are not in it.

    Args:
        plans: folder of plans.
        results: folder that holds the folders of results.
        paper: the name before the underscore of the plans to take, such as raid2025; empty takes all.
    """
    chosen = [read_plan(path) for path in _list_plans(Path(plans), paper)]
    stores = open_stores(results)
    compared = {plan.name: compare_published(plan, stores) for plan in chosen}
    option, page = (f" --paper {paper}", f"{paper}.md") if paper else ("", "all.md")
    command = f"recveil study reproduction {plans} --results {results}{option} > research/reproduction/{page}"
    head = (
        "# Published numbers beside ours\n\nMade by the command below from folders that `recveil study run` wrote; "
        f"not written by hand.\n\n    {command}\n\n{RULE}\n\n{_write_counts(chosen, compared)}\n"
    )
    sections = [_write_section(plan, compared[plan.name]) for plan in chosen if compared[plan.name]]
    return "\n".join([head, *sections]), [number for numbers in compared.values() for number in numbers]


def _list_plans(folder: Path, paper: str) -> list[Path]:
    """List the plans of one paper or of all, in the order of their tables."""
    files = sorted(folder.glob("*.toml"), key=_split_name) if folder.is_dir() else []
    if not files:
        raise UsageError(f"There are no plans in {folder}. Name the folder with the plans of the papers.")
    by_paper: dict[str, list[Path]] = {}
    for path in files:
        by_paper.setdefault(_split_name(path)[0], []).append(path)
    if paper and paper not in by_paper:
        raise unknown_name(f"paper in {folder}", paper, by_paper)
    return by_paper[paper] if paper else files


def _split_name(path: Path) -> tuple[str, str, int, str]:
    """Split a plan's name into paper, kind and number, to sort table 10 after table 9."""
    paper, _, rest = path.stem.partition("_")
    match = re.match(r"([a-z]*)(\d*)", rest)
    assert match is not None  # the pattern matches any text
    return paper, match[1], int(match[2] or 0), rest


def _write_counts(plans: Sequence[Plan], compared: Mapping[str, Sequence[PublishedComparison]]) -> str:
    rows, total = [], Counter[str]()
    for plan in plans:
        counts = Counter(number.verdict for number in compared[plan.name])
        total += counts
        if counts:
            rows.append([plan.title, *(str(counts[verdict]) for verdict in VERDICTS)])
    last = ["**all**", *(f"**{total[verdict]}**" for verdict in VERDICTS)]
    lines = write_markdown_table(["table", *VERDICTS], rows).splitlines()
    return "\n".join([*lines, f"| {' | '.join(last)} |"])


def _write_section(plan: Plan, numbers: Sequence[PublishedComparison]) -> str:
    used = [axis for axis in SHOWN_COORDINATES if any(getattr(n.published, axis) for n in numbers)]
    head = [axis.replace("_", " ") for axis in used]
    head += ["measure", "paper", "ours", "seeds", "verdict", "reason or note"]
    rows = [[*(_format_value(getattr(n.published, axis)) for axis in used), *_format_cells(n)] for n in numbers]
    about = escape_markdown(" ".join(plan.about.split()))
    table = write_markdown_table(head, rows)
    return f"## {escape_markdown(plan.title)}\n\n{about}\n\n`{plan.name}.toml`\n\n{table}\n"


def _format_value(value: float | str | None) -> str:
    return "" if value is None else str(value)


def _format_cells(number: PublishedComparison) -> Iterator[str]:
    yield number.published.metric
    yield _format_value(number.published.value)
    yield _format_estimate(number)
    yield str(number.seeds) if number.seeds else ""
    yield number.verdict
    yield number.reason


def _format_estimate(number: PublishedComparison) -> str:
    ours, metric = number.ours, number.metric
    if ours is None:
        return ""
    digits = 1 if metric == "seconds" else 4 if "@" in metric else 3
    interval = "" if ours.low != ours.low else f" [{ours.low:.{digits}f}, {ours.high:.{digits}f}]"
    name = "" if metric == number.published.metric else f"{metric.replace('_', ' ')} "
    return f"{name}{ours.value:.{digits}f}{interval}"
