"""The plans of the papers: each is read, its cells counted; some are run in their smallest size, and slowly all."""

from itertools import combinations
from math import log2, prod
from pathlib import Path

import pytest

from recveil.studies.plan_checks import check_plan
from recveil.studies.plans import Published, read_plan
from recveil.studies.reproduction import compare_published
from recveil.studies.runs import run_study

ROOT = Path(__file__).resolve().parent.parent
PAPERS = sorted((ROOT / "research" / "plans").glob("*.toml"))
WANTED = [
    *(f"raid2025_table{n}" for n in range(2, 13)),
    *(f"raid2025_figure{n}" for n in (4, 5, 6)),
    *(f"attrcloak2025_{name}" for name in ("table1", "table4", "table5", "table6", "table7", "figure4", "figure5")),
    *(
        f"dlmia2022_{name}"
        for name in ("figure3a", "figure3b", "figure4", "figure5", "table2", "table3", "demonstration", "without_leak")
    ),
    *(f"more_{name}" for name in ("lastfm", "bookcrossing", "coat")),
]
MAX_SMOKE_CELLS = 40
SEARCHES = ("raid2025_search", "raid2025_tuned", "raid2025_strengths")


def test_every_table_and_figure_with_numbers_has_its_plan() -> None:
    assert set(WANTED) <= {path.stem for path in PAPERS}


@pytest.mark.parametrize("path", PAPERS, ids=lambda p: p.stem)
def test_a_plan_is_read_checked_and_its_published_numbers_placed(path: Path) -> None:
    plan = read_plan(path)
    lists = plan.grid.model_dump()
    assert len(plan.cells()) == prod(len(values) for values in lists.values())
    assert len({cell.id for cell in plan.cells()}) == len(plan.cells())
    assert len(plan.about) > 60
    assert plan.source or plan.name.startswith("more_")
    if plan.kind == "attribute" and not plan.name.startswith(SEARCHES):
        names = [choice.title for choice in plan.grid.defense]
        assert names[0] == "none"
        assert "sliced" in names
    found = compare_published(plan, [])  # a number that no cell is for would be an error
    assert {c.verdict for c in found} <= {"not run", "not obtainable", "artifact", "repeated"}
    for comparison in found:
        assert comparison.reason or comparison.verdict == "not run"
    for number in plan.published:
        assert number.value is not None
        assert number.metric
    small = read_plan(path, "smoke")
    assert {cell.at["data"] for cell in small.cells()} == {"demo"}
    assert check_plan(small) == len(small.cells()) < MAX_SMOKE_CELLS


def test_tables_that_show_the_same_cells_share_them() -> None:
    def ids(name: str) -> set[str]:
        return {cell.id for cell in read_plan(ROOT / "research" / "plans" / f"raid2025_{name}.toml").cells()}

    assert ids("table2") == ids("table12") <= ids("table3")
    assert ids("figure6") <= ids("table3")
    assert ids("table6") == ids("table7") == ids("table8")


def read_printed(name: str) -> list[Published]:
    """Read the printed numbers of a plan that data are at hand for."""
    plan = read_plan(ROOT / "research" / "plans" / f"{name}.toml")
    return [number for number in plan.published if not number.unavailable]


def test_gains_in_ndcg_that_cannot_be_are_called_artifacts() -> None:
    """Each hit between two cut-offs adds at least 1 / log2(k + 1) to NDCG; numbers are rounded to 0.001."""
    printed = [*read_printed("raid2025_table3"), *read_printed("raid2025_table12")]
    values = {(n.model, n.defense, n.target, n.metric): n.value or 0.0 for n in printed}
    impossible = set()
    for (*row, metric), value in values.items():
        name, _, k = metric.partition("@")
        before = {"10": "5", "15": "10", "20": "15"}.get(k)
        if name != "ndcg" or (*row, f"ndcg@{before}") not in values:
            continue
        hits = values[*row, f"hit_rate@{k}"] - values[*row, f"hit_rate@{before}"]
        if value - values[*row, f"ndcg@{before}"] < (hits - 0.001) / log2(int(k) + 1) - 0.001:
            impossible.add((*row, metric))
    called = {(n.model, n.defense, n.target, n.metric) for n in printed if "where HR rises" in n.artifact}
    assert impossible == called
    assert len(called) == 2


def test_rows_that_repeat_another_defense_are_called_artifacts() -> None:
    """Three scores of one defense that are those of another to four digits are a copied row."""
    for name in ("raid2025_table2", "raid2025_table6", "raid2025_table7", "raid2025_table8"):
        rows: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
        called = set()
        for n in read_printed(name):
            if n.metric == "balanced_accuracy":
                rows.setdefault((n.model, n.target), {}).setdefault(n.defense, {})[n.attack] = n.value or 0.0
                called |= {(n.target, n.defense)} if "repeats" in n.artifact else set()
        copies = {
            (target, second)
            for (_, target), by_defense in rows.items()
            for first, second in combinations(by_defense, 2)
            if sum(by_defense[first][a] == by_defense[second].get(a) for a in by_defense[first]) >= 3
        }
        assert copies == called
        assert bool(called) == (name == "raid2025_table7")


def test_a_micro_f1_of_three_equal_classes_that_is_not_the_balanced_accuracy_is_called_a_misprint() -> None:
    """On classes of equal size the micro-averaged F1 is the accuracy, and the balanced accuracy, too.

    91 of the 95 printed pairs for `age3` agree within 0.006, so classes were of equal size; folds explain 0.02.
    """
    called, apart, gaps = set(), set(), []
    for table in ("2", "6", "7", "8", "10"):
        pairs: dict[tuple[object, ...], dict[str, Published]] = {}
        for n in read_printed(f"raid2025_table{table}"):
            if n.target == "age3" and n.attack:
                pairs.setdefault((table, n.model, n.defense, n.leak_ratio, n.attack), {})[n.metric] = n
        for key, pair in pairs.items():
            gaps.append(abs((pair["f1"].value or 0.0) - (pair["balanced_accuracy"].value or 0.0)))
            apart |= {key} if gaps[-1] > 0.02 else set()
            called |= {key} if any("micro-averaged" in n.artifact for n in pair.values()) else set()
    assert called == apart
    assert sum(gap < 0.006 for gap in gaps) == 91
    assert len(gaps) == 95
    assert len(apart) == 2


@pytest.mark.parametrize("path", [p for p in PAPERS if p.stem.startswith("raid2025_table")], ids=lambda p: p.stem)
def test_an_f1_is_called_below_chance_only_beside_a_balanced_accuracy_below_chance(path: Path) -> None:
    """The binary F1 of an attacker at chance lies anywhere between 0 and 2/3."""
    printed = read_printed(path.stem)
    row = ("data", "model", "defense", "target", "attack", "leak_ratio")
    accuracy = {tuple(getattr(n, a) for a in row): n.value for n in printed if n.metric == "balanced_accuracy"}
    for number in printed:
        if number.metric == "f1" and "below chance" in number.artifact:
            beside = accuracy[tuple(getattr(number, a) for a in row)]
            assert beside is not None
            assert beside < (0.5 if number.target == "gender" else 1 / 3) - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("path", PAPERS, ids=lambda p: p.stem)
def test_a_full_plan_names_only_what_there_is(path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECVEIL_DATA", str(shared_data))
    plan = read_plan(path)
    assert check_plan(plan) == len(plan.cells()) > 0


class Here:
    """This very process: a new one would take longer to start than the cells take."""

    name = "here"

    def run(self, work, cells, *, may_start):
        return ((cell, work(cell)) for cell in cells)


def ran(path: Path, folder: Path) -> tuple[int, int, int]:
    """How many cells were done, failed and left."""
    tally = run_study(read_plan(path, "smoke"), folder, Here())
    return tally.done, tally.failed, tally.left


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["raid2025_table3"])
def test_a_smoke_plan_runs(name: str, tmp_path: Path) -> None:
    path = ROOT / "research" / "plans" / f"{name}.toml"
    assert ran(path, tmp_path / "study") == (len(read_plan(path, "smoke").cells()), 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("path", PAPERS, ids=lambda p: p.stem)
def test_all_smoke_plans_run(path: Path, tmp_path: Path) -> None:
    assert ran(path, tmp_path / "study") == (len(read_plan(path, "smoke").cells()), 0, 0)
