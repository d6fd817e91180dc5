"""Two folders compared: equal ones are equal, a planted difference is found with its sign and its interval."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.core.random import make_generator
from recveil.core.study_parts import ComparisonRow, StudyComparison
from recveil.core.types import Estimate, Record
from recveil.metrics.ranking import Ranks, estimate_difference, ndcg
from recveil.studies.cell_results import AttributeDetails, CellResult, CellTiming, MembershipDetails, StoredTarget
from recveil.studies.plans import Plan
from recveil.studies.rank_codec import pack_ranks
from recveil.studies.store import Store, create_store
from recveil.studies.store_comparison import compare_stores

N_USERS = 200


def make_plan(**options: float) -> Plan:
    model = {"name": "bprmf", "label": "BPR", **options}
    grid = {"data": ["d"], "model": [model], "target": ["gender"], "seed": [0, 1]}
    return Plan.parse({"title": "t", "kind": "attribute", "grid": grid}, name="p")


def make_ranks(seed: int, better: int) -> Ranks:
    users = np.arange(N_USERS)
    drawn = make_generator(seed, "ranks").integers(0, 30, N_USERS)
    return Ranks(users, users, np.maximum(drawn - better, 0), np.zeros(N_USERS, dtype=np.int64))


def fill(folder: Path, plan: Plan, *, more: float = 0.0, better: int = 0, folds: int = 5) -> Store:
    store = create_store(folder)
    for cell in plan.cells():
        drawn = (make_generator(cell.seed, "folds").normal(0.3, 0.02, folds) + more).tolist()
        ranks = pack_ranks(make_ranks(cell.seed, better))
        audit = StoredTarget(folds=drawn, n=N_USERS)
        details = AttributeDetails(ranks=ranks, base=ranks, test_share=0.25, targets={"gender": audit})
        estimate = Estimate(drawn[0], float("nan"), float("nan"), better)
        record = Record("d", "BPR", "none", "a", "gender", cell.seed, "x", estimate)
        store.write_cell(CellResult(cell, [record], details), CellTiming())
    return store


def find_row(comparison: StudyComparison, metric: str) -> ComparisonRow:
    [row] = [row for row in comparison.rows if row.metric == metric]
    return row


def test_a_folder_does_not_differ_from_itself(tmp_path: Path) -> None:
    store = fill(tmp_path / "a", make_plan())
    found = compare_stores(store, store)
    assert (found.paired, found.equal, found.only_first, found.only_second) == (2, 2, 0, 0)
    assert [row.difference.value for row in found.rows] == [0.0, 0.0]
    assert not any(row.differs for row in found.rows)


def test_cells_of_another_option_are_paired_by_label_and_differ_as_planted(tmp_path: Path) -> None:
    first = fill(tmp_path / "a", make_plan())
    second = fill(tmp_path / "b", make_plan(epochs=3), more=-0.1, better=4)
    assert not first.finished_ids() & second.finished_ids()
    found = compare_stores(first, second)
    assert (found.paired, found.equal) == (2, 0)
    advantage, quality = find_row(found, "advantage"), find_row(found, "ndcg@10")
    assert (advantage.seeds, advantage.differs) == (2, True)
    assert advantage.difference.value == pytest.approx(-0.1)
    a, b = (np.mean([ndcg(make_ranks(seed, better), 10) for seed in (0, 1)], axis=0) for better in (0, 4))
    assert quality.difference.to_dict() == pytest.approx(estimate_difference(b, a).to_dict())
    assert quality.differs


def test_folds_that_do_not_match_are_compared_unpaired(tmp_path: Path) -> None:
    first, second = fill(tmp_path / "a", make_plan()), fill(tmp_path / "b", make_plan(epochs=3), folds=10)
    gap = find_row(compare_stores(first, second), "advantage").difference
    assert gap.low < 0 < gap.high


def test_membership_is_paired_by_seed(tmp_path: Path) -> None:
    stores = []
    for name, shift in (("a", 0.0), ("b", 0.1)):
        grid = {"data": ["d"], "target": ["als"], "shadow": ["als"], "seed": [0, 1, 2]}
        store = create_store(tmp_path / name)
        for cell in Plan.parse({"title": "t", "kind": "membership", "grid": grid}, name="p").cells():
            auc = 0.6 + cell.seed / 50 + shift * (1 + 0.01 * cell.seed)
            estimate = Estimate(auc, auc - 0.1, auc + 0.1, 9)
            record = Record("d", "als", "none", "dlmia", "membership", cell.seed, "auc", estimate)
            store.write_cell(CellResult(cell, [record], MembershipDetails(attacks={})), CellTiming())
        stores.append(store)
    row = find_row(compare_stores(*stores), "auc")
    assert row.difference.value == pytest.approx(0.101)
    assert row.differs


def test_folders_without_a_common_cell_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="have no finished cell in common"):
        compare_stores(fill(tmp_path / "a", make_plan()), create_store(tmp_path / "b"))
