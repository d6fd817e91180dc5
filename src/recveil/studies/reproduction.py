"""Published numbers beside ours: what we measured, with its interval, and whether it is the same."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recveil.core.errors import UsageError, unknown_name
from recveil.core.study_parts import ReproducedNumber
from recveil.core.types import Estimate
from recveil.report.study_text import escape_markdown, write_markdown_table
from recveil.studies.cells import UNDEFENDED
from recveil.studies.earlier_pages import (
    EarlierNumber,
    find_earlier,
    measure_earlier_change,
    read_earlier_page,
)
from recveil.studies.membership_tables import estimate_metric
from recveil.studies.plans import Plan, Published, read_plan
from recveil.studies.pooled_seeds import MEASURES, PooledCell, pool_plan
from recveil.studies.published_verdicts import (
    COUNTED_VERDICTS,
    MAX_CHANGE_GAP,
    MAX_RANKING_GAP_SHARE,
    MAX_SCORE_GAP,
    OUR_FIELDS,
    REPEATED,
    REPRODUCED,
    RankingChange,
    explain_verdict,
    is_repeated,
    judge_number,
)
from recveil.studies.store import STUDY_FILE, Store, open_store

__all__ = ["PublishedComparison", "compare_published", "open_stores", "write_reproduction"]

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
    "data", "model", "shadow", "shadow_data", "defense", "target", "of", "serving", "generator", "leak_ratio", "attack",
)  # fmt: skip

RULE = f"""**Reproduced**: the paper's value lies within our 95 % interval, or within {MAX_SCORE_GAP:g} of ours (attack
scores) or {100 * MAX_RANKING_GAP_SHARE:g} % of ours (ranking measures); or a defended ranking changes against the
undefended one as in the paper, within {100 * MAX_CHANGE_GAP:g} points. **Artifact**: the number comes from a fault of
the protocol that a test shows (EVALUATION 1 to 8, `tests/test_eight_ways.py`). **Setting**: something is done
otherwise, which the sentence names. **Not obtainable**: why. A printed F1 that repeats the balanced accuracy beside it
is not counted. Seconds are of other machines and never count as reproduced. Ours is in the paper's own measure where we
have it, else in the nearest one, which is named. Where there is a column `run`, a number with a date in it was taken
over from an earlier page."""


@dataclass(frozen=True, eq=False)
class PublishedComparison:
    """One published number, ours, and the verdict."""

    plan: str
    published: Published
    ours: Estimate | None
    metric: str
    seeds: int
    verdict: str
    reason: str
    beside: str = ""
    run: str = ""

    def to_result(self) -> ReproducedNumber:
        """Return the comparison as a part of a result."""
        return ReproducedNumber(
            plan=self.plan,
            **self.published.model_dump(exclude=set(OUR_FIELDS)),
            our_metric=self.metric,
            our_estimate=self.ours,
            seeds=self.seeds,
            verdict=self.verdict,
            reason=self.reason,
            run=self.run,
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


def compare_published(
    plan: Plan, stores: Sequence[Store], earlier: Sequence[EarlierNumber] = ()
) -> list[PublishedComparison]:
    """Compare every published number of a plan with ours.

    Args:
        plan: the plan.
        stores: study folders.
        earlier: numbers of earlier pages, for those that no study folder holds.

    Raises:
        UsageError: a published number names no cell of the plan.
    """
    pooled = pool_plan(plan, stores) if any(not number.unavailable for number in plan.published) else []
    compared = [_compare_number(plan, published, pooled) for published in plan.published]
    return [_take_earlier(plan, number, earlier) for number in compared]


def _take_earlier(plan: Plan, compared: PublishedComparison, earlier: Sequence[EarlierNumber]) -> PublishedComparison:
    """Judge our number of an earlier page, where no study folder holds one."""
    published = compared.published
    if compared.ours is not None or published.unavailable:
        return compared
    number = find_earlier(plan.name, published, earlier)
    if number is None:
        return compared
    change = measure_earlier_change(number, published, earlier)
    verdict = judge_number(published, number.ours, change)
    difference = number.describe_difference(published)
    as_run = published.model_copy(update={"setting": difference + number.setting})
    reason = explain_verdict(verdict, as_run, plan, change)
    if verdict == REPRODUCED:
        reason = (difference + reason).rstrip("; ")
    if compared.verdict == REPEATED:
        verdict, reason = compared.verdict, compared.reason
    return replace(
        compared,
        ours=number.ours,
        metric=number.metric,
        seeds=number.seeds,
        run=number.run,
        verdict=verdict,
        reason=reason,
    )


def _compare_number(plan: Plan, published: Published, pooled: Sequence[PooledCell]) -> PublishedComparison:
    metric = published.ours or published.metric
    cells, ours = (None, None) if published.unavailable else _find_cells(plan, published, pooled, metric)
    change = None if cells is None else _find_change(plan, published, cells, metric)
    verdict = judge_number(published, ours, change)
    reason = explain_verdict(verdict, published, plan, change)
    if is_repeated(published, plan):
        verdict, reason = REPEATED, "repeats the balanced accuracy beside it"
    seeds = 0 if cells is None else len(cells.results)
    return PublishedComparison(
        plan.name, published, ours, metric, seeds, verdict, reason, _find_accuracy(published, cells)
    )


def _find_cells(
    plan: Plan, published: Published, pooled: Sequence[PooledCell], metric: str
) -> tuple[PooledCell | None, Estimate | None]:
    """Find the combination that a number belongs to, and our number; None where it was not run."""
    candidates = [cells for cells in pooled if _is_about(published, cells)]
    if not candidates:
        names = ", ".join(str(v) for v in published.model_dump(exclude_defaults=True).values())
        raise UsageError(f"The plan {plan.name} has no cell for its published number ({names}). Correct its names.")
    for cells in candidates:
        ours = _find_ours(cells, published, metric) if cells.results else None
        if ours is not None:
            return cells, ours
    return None, None


def _find_change(plan: Plan, published: Published, cells: PooledCell, metric: str) -> RankingChange | None:
    """Find the change of a ranking measure against the undefended model, printed and ours; None where there is none.

    Ours is against the undefended models that the defended cells themselves ranked with: the same seeds on the same
    machine, since levels differ between seeds by as much as a defense costs.
    """
    measure, _, k = metric.partition("@")
    if measure not in MEASURES or published.value is None or published.defense in ("", UNDEFENDED):
        return None
    same = {"data", "model", "target", "metric"}
    printed = [
        other.value
        for other in plan.published
        if other.defense == UNDEFENDED and other.model_dump(include=same) == published.model_dump(include=same)
    ]
    printed += [] if published.undefended is None else [published.undefended]
    before = cells.estimate_undefended(measure, int(k)).value
    if not printed or not printed[0] or not before:
        return None
    return RankingChange(published.value / printed[0] - 1, cells.estimate_ranking(measure, int(k)).value / before - 1)


def _find_accuracy(published: Published, cells: PooledCell | None) -> str:
    """Write our accuracy, where the paper's accuracy is set beside our balanced accuracy."""
    if cells is None or published.metric != "accuracy" or published.ours != "balanced_accuracy":
        return ""
    accuracy = _find_ours(cells, published, "accuracy")
    return "" if accuracy is None else f"accuracy {accuracy.value:.3f}"


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
    return cells.estimate_attack(published.of or published.target.split("+")[0], published.attack, metric)


def write_reproduction(
    plans: str | Path, results: str | Path, paper: str = "", earlier: Mapping[str, str] | None = None
) -> tuple[str, list[PublishedComparison]]:
    """Write the page, Markdown; return it with its numbers. Plans without published numbers are not in it.

    Args:
        plans: folder of plans.
        results: folder that holds the folders of results.
        paper: the name before the underscore of the plans to take, such as raid2025; empty takes all.
        earlier: earlier pages by run, for numbers that no study folder holds; the first page that has one counts.
    """
    earlier = earlier or {}
    old = [number for run, path in earlier.items() for number in read_earlier_page(path, run)]
    chosen = [read_plan(path) for path in _list_plans(Path(plans), paper)]
    stores = open_stores(results)
    compared = {plan.name: compare_published(plan, stores, old) for plan in chosen}
    option, page = (f" --paper {paper}", f"{paper}.md") if paper else ("", "all.md")
    option += "".join(f" --earlier {run}={path}" for run, path in earlier.items())
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
        if counts.total() - counts[REPEATED]:
            rows.append([plan.title, *(str(counts[verdict]) for verdict in COUNTED_VERDICTS)])
    last = ["**all**", *(f"**{total[verdict]}**" for verdict in COUNTED_VERDICTS)]
    lines = write_markdown_table(["table", *COUNTED_VERDICTS], rows).splitlines()
    return "\n".join([*lines, f"| {' | '.join(last)} |"])


def _write_section(plan: Plan, numbers: Sequence[PublishedComparison]) -> str:
    used = [axis for axis in SHOWN_COORDINATES if any(getattr(n.published, axis) for n in numbers)]
    head = [axis.replace("_", " ") for axis in used]
    runs = ["run"] if any(n.run for n in numbers) else []
    head += ["measure", "paper", "ours", "seeds", *runs, "verdict", "reason or note"]
    rows = [
        [*(_format_value(getattr(n.published, axis)) for axis in used), *_format_cells(n, has_run=bool(runs))]
        for n in numbers
    ]
    about = escape_markdown(" ".join(plan.about.split()))
    table = write_markdown_table(head, rows)
    return f"## {escape_markdown(plan.title)}\n\n{about}\n\n`{plan.name}.toml`\n\n{table}\n"


def _format_value(value: float | str | None) -> str:
    return "" if value is None else str(value)


def _format_cells(number: PublishedComparison, *, has_run: bool) -> Iterator[str]:
    yield number.published.metric
    yield _format_value(number.published.value)
    yield _format_estimate(number)
    yield str(number.seeds) if number.seeds else ""
    if has_run:
        yield number.run
    yield number.verdict
    yield number.reason


def _format_estimate(number: PublishedComparison) -> str:
    ours, metric = number.ours, number.metric
    if ours is None:
        return ""
    digits = 1 if metric == "seconds" else 4 if "@" in metric else 3
    interval = "" if ours.low != ours.low else f" [{ours.low:.{digits}f}, {ours.high:.{digits}f}]"
    name = "" if metric == number.published.metric else f"{metric.replace('_', ' ')} "
    beside = f", {number.beside}" if number.beside else ""
    return f"{name}{ours.value:.{digits}f}{interval}{beside}"
