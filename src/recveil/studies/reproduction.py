"""Published numbers beside ours: for each what we measured, with its interval, and whether it is the same."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recveil.core.errors import UsageError, unknown_name
from recveil.core.types import Estimate
from recveil.studies.membership_tables import pool_attack_metric
from recveil.studies.plans import Plan, Published, read_plan
from recveil.studies.pooled_seeds import MEASURES, PooledCell, pool_plan
from recveil.studies.store import Store, open_store

__all__ = ["VERDICTS", "PublishedComparison", "compare_published", "write_reproduction", "open_stores"]

VERDICTS = ("reproduced", "different", "not run", "data not available here")
MAX_SCORE_GAP, MAX_RANKING_GAP_SHARE = 0.03, 0.10
"""How near an attack score and a ranking measure must come where the interval is narrower still."""

NO_REASON = "no reason known; the paper prints no interval (EVALUATION 8)"
COORDINATES = ("data", "model", "shadow", "defense", "target", "panel", "surface", "serving", "generator")

SHOWN = ("data", "model", "shadow", "defense", "target", "serving", "generator", "leak_ratio", "attack")

RULE = f"""**Reproduced**: the paper's value lies within our 95 % interval, or within {MAX_SCORE_GAP:g} of ours (attack
scores) or {100 * MAX_RANKING_GAP_SHARE:g} % of ours (ranking measures). **Different**: neither; the reason is what is known to be
done otherwise, not a proven cause. EVALUATION 1 to 8 are the eight ways in which earlier numbers went wrong, each with
a test (`tests/test_eight_ways.py`). Seconds are of other machines and never count as reproduced. Ours is in the paper's
own measure where we have it, else in the nearest one, which is named. A note beside a reproduced number says what it
means."""


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
        """Why it differs or is not there, or what is to be known of it."""
        if self.published.unavailable or self.verdict == "not run":
            return self.published.unavailable
        return self.published.note or (NO_REASON if self.verdict == "different" else "")

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "plan": self.plan,
            **self.published.model_dump(exclude_defaults=True),
            "our_metric": self.metric,
            "our_estimate": None if self.ours is None else self.ours.to_dict(),
            "seeds": self.seeds,
            "verdict": self.verdict,
            "reason": self.reason,
        }


def open_stores(folder: str | Path) -> list[Store]:
    """The folder of results itself, or all that lie in it."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. Name the one that holds the folders of results.")
    if (folder / "study.json").is_file():
        return [open_store(folder)]
    inside = sorted(entry.name for entry in os.scandir(folder) if (Path(entry.path) / "study.json").is_file())
    return [open_store(folder / name) for name in inside]


def compare_published(plan: Plan, stores: Sequence[Store]) -> list[PublishedComparison]:
    """Every published number of a plan beside ours."""
    found = pool_plan(plan, stores) if any(not p.unavailable for p in plan.published) else []
    return [_compare_number(plan, published, found) for published in plan.published]


def _compare_number(plan: Plan, published: Published, found: Sequence[PooledCell]) -> PublishedComparison:
    metric = published.ours or published.metric
    if published.unavailable:
        return PublishedComparison(plan.name, published, None, metric, 0, "data not available here")
    meant = [line for line in found if _is_about(line, published)]
    if not meant:
        told = ", ".join(str(v) for v in published.model_dump(exclude_defaults=True).values())
        raise UsageError(f"The plan {plan.name} has no cell for its published number ({told}). Mend its names.")
    for line in meant:
        ours = _find_ours(line, published, metric) if line.results else None
        if ours is not None:
            near = _is_reproduced(published, ours)
            return PublishedComparison(
                plan.name, published, ours, metric, len(line.results), VERDICTS[0 if near else 1]
            )
    return PublishedComparison(plan.name, published, None, metric, 0, "not run")


def _is_about(line: PooledCell, published: Published) -> bool:
    """Whether the published number is of this line: what it names is the same."""
    named = {key: getattr(published, key) for key in COORDINATES}
    ratio = published.leak_ratio
    return all(not value or line.at.get(key) == value for key, value in named.items()) and (
        ratio is None or line.at.get("leak_ratio") == str(ratio)
    )


def _find_ours(line: PooledCell, published: Published, metric: str) -> Estimate | None:
    """Ours in this measure, where the line has it."""
    if metric == "seconds":
        seconds = line.time("train") or line.time("defend")
        return None if seconds is None else Estimate(seconds, float("nan"), float("nan"), len(line.results))
    if line.kind == "membership":
        return pool_attack_metric(line, published.attack, metric)
    measure, _, k = metric.partition("@")
    if measure in MEASURES and k.isdigit():
        return line.ranking(measure, int(k)) if int(k) in line.settings["k"] else None
    return line.attacker(published.target.split("+")[0], published.attack, metric)


def _is_reproduced(published: Published, ours: Estimate) -> bool:
    """The rule of `RULE`."""
    if published.value is None or published.metric == "seconds":
        return False
    gap, ranking = abs(published.value - ours.value), "@" in published.metric
    near = gap <= MAX_RANKING_GAP_SHARE * abs(ours.value) if ranking else gap <= MAX_SCORE_GAP + 1e-12
    return near or ours.low <= published.value <= ours.high


def write_reproduction(
    papers: str | Path, results: str | Path, paper: str = ""
) -> tuple[str, list[PublishedComparison]]:
    """The page, Markdown, and what it is made of; plans without published numbers are not in it.

    `paper` is the name before the underscore of the plans to take, as in raid2025; all if not given.
    """
    papers = Path(papers)
    plans = [read_plan(path) for path in _list_plans(papers, paper)]
    stores = open_stores(results)
    compared = {plan.name: compare_published(plan, stores) for plan in plans}
    rows = [row for each in compared.values() for row in each]
    one, page = (f" --paper {paper}", f"reproduction/{paper}.md") if paper else ("", "reproduction.md")
    command = f"recveil study reproduction {papers} --results {results}{one} > docs/{page}"
    head = (
        "# Published numbers beside ours\n\nMade by the command below from folders that `recveil study run` wrote; "
        f"not written by hand.\n\n    {command}\n\n{RULE}\n\n{_write_counts(plans, compared)}\n"
    )
    sections = [_write_section(plan, compared[plan.name]) for plan in plans if compared[plan.name]]
    return "\n".join([head, *sections]), rows


def _list_plans(papers: Path, paper: str) -> list[Path]:
    """The plans of a folder, of one paper or of all, in the order of their tables."""
    files = sorted(papers.glob("*.toml"), key=_sort_key) if papers.is_dir() else []
    if not files:
        raise UsageError(f"There are no plans in {papers}. Name the folder with the plans of the papers.")
    by_paper: dict[str, list[Path]] = {}
    for path in files:
        by_paper.setdefault(_sort_key(path)[0], []).append(path)
    if paper and paper not in by_paper:
        raise unknown_name(f"paper in {papers}", paper, by_paper)
    return by_paper[paper] if paper else files


def _sort_key(path: Path) -> tuple[str, str, int, str]:
    """Table 10 after Table 9."""
    paper, _, rest = path.stem.partition("_")
    kind, number = re.fullmatch(r"([a-z]*)(\d*).*", rest).groups()  # type: ignore[union-attr]
    return paper, kind, int(number or 0), rest


def _write_counts(plans: Sequence[Plan], compared: dict[str, list[PublishedComparison]]) -> str:
    from recveil.report.study_text import write_markdown_table

    rows, whole = [], Counter[str]()
    for plan in plans:
        counted = Counter(row.verdict for row in compared[plan.name])
        whole += counted
        if counted:
            rows.append([plan.title, *(str(counted[v]) for v in VERDICTS)])
    total = ["**all**", *(f"**{whole[v]}**" for v in VERDICTS)]
    lines_ = write_markdown_table(["table", *VERDICTS], rows).splitlines()
    return "\n".join([*lines_, f"| {' | '.join(total)} |"])


def _write_section(plan: Plan, compared: Sequence[PublishedComparison]) -> str:
    from recveil.report.study_text import escape_markdown, write_markdown_table

    used = [key for key in SHOWN if any(getattr(c.published, key) for c in compared)]
    head = [key.replace("_", " ") for key in used] + ["measure", "paper", "ours", "seeds", "verdict", "reason or note"]
    rows = [[*(_format_value(getattr(c.published, key)) for key in used), *_format_cells(c)] for c in compared]
    about = " ".join(plan.about.split())
    return f"## {escape_markdown(plan.title)}\n\n{escape_markdown(about)}\n\n`{plan.name}.toml`\n\n{write_markdown_table(head, rows)}\n"


def _format_value(value: Any) -> str:
    return "" if value is None else str(value)


def _format_cells(c: PublishedComparison) -> Iterator[str]:
    digits = 1 if c.metric == "seconds" else 4 if "@" in c.metric else 3
    yield c.published.metric
    yield _format_value(c.published.value)
    yield _format_estimate(c, digits)
    yield str(c.seeds) if c.seeds else ""
    yield c.verdict
    yield c.reason


def _format_estimate(c: PublishedComparison, digits: int) -> str:
    if c.ours is None:
        return ""
    span = "" if c.ours.low != c.ours.low else f" [{c.ours.low:.{digits}f}, {c.ours.high:.{digits}f}]"
    named = "" if c.metric == c.published.metric else f"{c.metric.replace('_', ' ')} "
    return f"{named}{c.ours.value:.{digits}f}{span}"
