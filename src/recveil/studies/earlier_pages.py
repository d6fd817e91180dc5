"""Numbers of an earlier page of published numbers, for those that no study folder holds.

Studies are run in parts, on several machines, and only the pages are kept. A page that is written again takes over what
was measured before, and says in the column `run` which run each such number is of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from pathlib import Path

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.types import Estimate
from recveil.studies.cells import UNDEFENDED
from recveil.studies.plans import Published
from recveil.studies.published_verdicts import SETTING, RankingChange

__all__ = ["EarlierNumber", "find_earlier", "measure_earlier_change", "read_earlier_page"]

COORDINATES = (
    "data", "model", "shadow", "shadow_data", "defense", "target", "of", "serving", "generator", "leak_ratio", "attack",
)  # fmt: skip

OTHER_SETTINGS = "that run had other settings, which the head of this page names"

OURS = re.compile(
    r"(?:(?P<metric>[a-z][a-z0-9_@ ]*) )?(?P<value>-?\d+\.\d+)"
    r"(?: \[(?P<low>-?\d+\.\d+), (?P<high>-?\d+\.\d+)\])?(?:, accuracy (?P<accuracy>\d+\.\d+))?"
)
"""The cell of a number of ours: its measure where it is not the paper's, value, interval, and accuracy beside it."""

MEASURED_AS = re.compile(r"measured as `([^`]+)`(?:[,;] )?")
"""What `describe_difference` writes of a defense with other options."""


@dataclass(frozen=True, eq=False)
class EarlierNumber:
    """A number of ours on an earlier page.

    Attributes:
        plan: name of the plan.
        at: coordinates, measure and printed value, as the page shows them.
        metric: our measure.
        ours: our estimate.
        seeds: number of seeds.
        run: the run it is of.
        setting: what that run did otherwise, as a sentence.
    """

    plan: str
    at: Mapping[str, str]
    metric: str
    ours: Estimate
    seeds: int
    run: str
    setting: str

    def matches(self, plan: str, published: Published, *, loosely: bool) -> bool:
        """Tell whether this is our number for the published one.

        Args:
            plan: name of the published number's plan.
            published: the number.
            loosely: accept the defense with other options, and one attribute protected in place of several.
        """
        wanted, accepted = _describe_number(published), set[str]()
        if loosely and _name_method(self.at.get("defense", "")) == _name_method(published.defense):
            accepted.add("defense")
        if loosely and self.at.get("target", "") == _name_attacked(published):
            accepted |= {"target", "of"}
        return self.plan == plan and {n for n in wanted if self.at.get(n, "") != wanted[n]} <= accepted

    def describe_difference(self, published: Published) -> str:
        """Say by what a number that matches loosely differs; empty where it does not."""
        defense, target = self.at.get("defense", ""), self.at.get("target", "")
        parts = [f"measured as `{defense}`"] if defense != published.defense else []
        parts += [f"{target} was protected alone"] if target != published.target and target else []
        return f"{', '.join(parts)}; " if parts else ""


def read_earlier_page(path: str | Path, run: str) -> list[EarlierNumber]:
    """Read all numbers of ours on a page of `recveil study reproduction`.

    Args:
        path: the page, Markdown.
        run: name of the run that numbers without a run of their own are of.

    Raises:
        UsageError: the page cannot be read or holds no table of published numbers.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The earlier page {path} cannot be read ({error}). Name a page of Markdown.") from error
    found = [number for plan, row in _iterate_rows(text) if (number := _parse_row(plan, row, run)) is not None]
    if not found:
        raise UsageError(f"The page {path} holds no numbers of ours. Name one that `study reproduction` wrote.")
    return found


def find_earlier(plan: str, published: Published, earlier: Sequence[EarlierNumber]) -> EarlierNumber | None:
    """Find our earlier number, an exact match before a loose one; None where there is none.

    Of several loose matches the one counts whose defense is written most nearly as the published number's.
    """
    for loosely in (False, True):
        matches = [number for number in earlier if number.matches(plan, published, loosely=loosely)]
        if matches:
            return max(matches, key=lambda number: len(commonprefix([number.at.get("defense", ""), published.defense])))
    return None


def measure_earlier_change(
    number: EarlierNumber, published: Published, earlier: Sequence[EarlierNumber]
) -> RankingChange | None:
    """Measure the change of a ranking measure against the undefended model of the same run; None without one.

    Where the table of the number has no undefended model, that of another table counts, of the same model and data.
    """
    if "@" not in number.metric or published.value is None or published.defense in ("", UNDEFENDED):
        return None
    same = [name for name in (*COORDINATES, "measure") if name != "defense"]
    bases = [
        base
        for base in earlier
        if base.run == number.run
        and base.metric == number.metric
        and base.at.get("defense") == UNDEFENDED
        and all(base.at.get(name, "") == number.at.get(name, "") for name in same)
    ]
    for base in sorted(bases, key=lambda base: base.plan != number.plan):
        printed = float(base.at["paper"])
        if printed and base.ours.value:
            return RankingChange(published.value / printed - 1, number.ours.value / base.ours.value - 1)
    return None


def _describe_number(published: Published) -> dict[str, str]:
    """Return coordinates, measure and value as a page shows them."""
    shown = {name: getattr(published, name) for name in COORDINATES}
    shown |= {"measure": published.metric, "paper": published.value}
    return {name: "" if value is None else str(value) for name, value in shown.items()}


def _name_method(label: str) -> str:
    return label.partition(",")[0]


def _name_attacked(published: Published) -> str:
    return published.of or published.target.partition("+")[0]


def _iterate_rows(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each row of the tables of published numbers with the name of its plan."""
    plan, head = "", list[str]()
    for line in text.splitlines():
        if name := re.fullmatch(r"`(\w+)\.toml`", line):
            plan, head = name[1], []
        elif line.startswith("## "):
            plan = ""
        elif plan and line.startswith("| "):
            cells = [re.sub(r"\\([\\|<*])", r"\1", cell).strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not head:
                head = [cell.replace(" ", "_") for cell in cells]
            elif set(cells) != {"---"}:
                yield plan, dict(zip(head, cells, strict=False))


def _parse_row(plan: str, row: Mapping[str, str], run: str) -> EarlierNumber | None:
    """Make the number of a row; None where the row has none of ours."""
    ours = OURS.fullmatch(row.get("ours", ""))
    if ours is None or not row.get("measure"):
        return None
    low, high = (float(ours[end]) if ours[end] else np.nan for end in ("low", "high"))
    seeds = int(row["seeds"]) if row.get("seeds", "").isdigit() else 0
    sentence = row.get("reason_or_note", "").partition("; the change against")[0]
    if measured := MEASURED_AS.match(sentence):  # taken over from a still earlier page: this is the defense it was of
        row, sentence = {**row, "defense": measured[1]}, sentence[measured.end() :]
    return EarlierNumber(
        plan,
        row,
        ours["metric"].replace(" ", "_") if ours["metric"] else row["measure"],
        Estimate(float(ours["value"]), low, high, seeds),
        seeds,
        row.get("run") or run,
        sentence if row.get("verdict") == SETTING and sentence else OTHER_SETTINGS,
    )
