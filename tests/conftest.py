"""What all tests share: the real data, where it is at hand."""

import gc
import os
from pathlib import Path

# Before torch is loaded: see recveil/__init__.py. With several test processes, one thread each.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest

# Modules and tests live to the end: counting them as garbage to be is a third of the time that collecting tests takes.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


hypothesis.settings.register_profile("recveil", deadline=None, max_examples=50)  # a busy machine is no failure
hypothesis.settings.load_profile("recveil")

ROOT = Path(__file__).resolve().parent.parent


def _data_folder() -> Path:
    return Path(os.environ.get("RECVEIL_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets; tests that need it are skipped where it is absent."""
    folder = _data_folder()
    if not (folder / "ml-100k").is_dir():
        pytest.skip(f"real data not at hand: set RECVEIL_DATA to a folder that holds ml-100k/ (looked in {folder})")
    return folder


@pytest.fixture
def quick_self_check(monkeypatch):
    """A self-check by two attackers; its own tests, the golden documents and the campaign use all of them."""
    from recveil.attacks.attribute.panels import make_attack

    def make_two(panel, device):
        return {name: make_attack(name, device) for name in ("logistic", "qda")}

    monkeypatch.setattr("recveil.workflows.self_check.make_panel", make_two)


@pytest.fixture
def no_trees(monkeypatch):
    """Evidence weighed without trees, which take most of the time; tests of the evidence and of exchange have them."""
    monkeypatch.setattr("recveil.transport.class_evidence.MAX_CLASSES_OF_TREES", 0)


@pytest.fixture
def fill_store(tmp_path):
    """A function that fills a folder with invented results: (plan, leaks, fail, skip, name) -> Store.

    `leaks[defense]` is the advantage and the share of users whose item is ranked first; of a membership plan,
    `leaks[attack]` is the AUC, and `leaks["rule"]` that of the one rule. `fail` and `skip` name (defense, seed) of
    cells that failed or were not run.
    """
    import numpy as np

    from recveil.core.types import Estimate, Record
    from recveil.metrics.intervals import estimate_corrected_mean
    from recveil.metrics.ranking import Ranks
    from recveil.studies.cell_results import (
        AttributeDetails,
        CellFailure,
        CellResult,
        CellTiming,
        MembershipDetails,
        StoredAttack,
        StoredTarget,
    )
    from recveil.studies.rank_codec import pack_ranks
    from recveil.studies.store import create_store, describe_plan

    def draw_ranks(share, seed):
        users = np.arange(400)
        better = np.where(np.random.default_rng(seed).random(400) < share, 0, 50)
        return pack_ranks(Ranks(users, users, better, np.zeros(400, dtype=np.int64)))

    def invent_attribute_cell(cell, leaks, rng):
        defense, target, seed = cell.label("defense"), cell.target, cell.seed
        leak, share = leaks[defense]
        folds = leak + 0.02 * rng.standard_normal(cell.rules.folds)
        names = (cell.data, cell.label("model"), defense)
        scores = estimate_corrected_mean(0.5 + folds / 2, 0.25, 320)
        records = [
            Record(*names, a, target, seed, "balanced_accuracy", scores) for a in ("logistic", "knn", "headline")
        ]
        records.append(Record(*names, "", target, seed, "displacement", Estimate(0.2, np.nan, np.nan, 400)))
        audit = StoredTarget(folds=[float(fold) for fold in folds], n=320, chance=0.5)
        details = AttributeDetails(
            ranks=draw_ranks(share, seed + 1),
            base=draw_ranks(leaks["none"][1], seed + 1),
            test_share=0.25,
            targets={target: audit},
            two_releases={} if defense == "none" else {target: audit},
        )
        return CellResult(cell, records, details)

    def invent_membership_cell(cell, leaks, rng):
        names = (cell.data, cell.label("target"), cell.label("defense"))
        aucs = {name: leaks[name] for name in cell.at["attack"].split(",")} | {"any-overlap": leaks["rule"]}
        records = []
        for name, auc in aucs.items():
            numbers = {"auc": auc, "balanced_accuracy": auc}
            if name != "any-overlap":
                numbers["auc_ahead_of_rules"] = auc - leaks["rule"]
            for metric, value in numbers.items():
                estimate = Estimate(value, value - 0.02, value + 0.02, 400)
                records.append(Record(*names, name, "membership", cell.seed, metric, estimate))
        attacks = {name: StoredAttack(rule=name == "any-overlap") for name in aucs}
        return CellResult(cell, records, MembershipDetails(attacks=attacks))

    def fill(plan, leaks, *, fail=(), skip=(), name="study"):
        store = create_store(tmp_path / name)
        describe_plan(store, plan)
        for number, cell in enumerate(plan.cells()):
            key = (cell.label("defense"), cell.seed)
            if key in skip:
                continue
            if key in fail:
                store.write_failure(cell, CellFailure(error="DataError: <b>broken</b>"))
                continue
            invent = invent_attribute_cell if cell.kind == "attribute" else invent_membership_cell
            seconds = {"train undefended": 2.0, "defend": 0.5, "audit": 1.0}
            store.write_cell(invent(cell, leaks, np.random.default_rng(number)), CellTiming(seconds=seconds))
        return store

    return fill
