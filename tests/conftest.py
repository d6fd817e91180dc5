"""What all tests share: the real data, where it is at hand."""

import os
from pathlib import Path

# Before torch is loaded: see recveil/__init__.py. With several test processes, one thread each.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

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
def made_up(tmp_path):
    """A function that fills a folder with results nobody measured: (plan, privacy by defense, fail, skip) -> Store.

    `leaks[defense]` is the advantage and the share of users whose item is ranked first; `fail` and `skip` name
    (defense, seed) of cells that failed or were not run.
    """
    import numpy as np

    from recveil.core.types import Estimate, Record
    from recveil.metrics.intervals import corrected_t
    from recveil.metrics.ranking import Ranks
    from recveil.studies.rank_codec import pack_ranks
    from recveil.studies.store import create_store, describe_plan

    def ranks(share, rng):
        users = np.arange(400)
        better = np.where(rng.random(400) < share, 0, 50)
        return Ranks(users, users, better, np.zeros(400, dtype=np.int64))

    def attribute(cell, leaks, rng):
        defense, seed = cell.label("defense"), cell.seed
        leak, share = leaks[defense]
        folds = leak + 0.02 * rng.standard_normal(cell.settings["folds"])
        names = (cell.at["data"], cell.label("model"), defense)
        scores = corrected_t(0.5 + folds / 2, 0.25, 320)
        target = cell.at["target"]
        rows = [Record(*names, a, target, seed, "balanced_accuracy", scores) for a in ("logistic", "knn", "headline")]
        rows.append(Record(*names, "", target, seed, "displacement", Estimate(0.2, np.nan, np.nan, 400)))
        told = {"folds": [float(v) for v in folds], "n": 320, "chance": 0.5}
        now = ranks(share, np.random.default_rng(seed + 1))
        base = ranks(leaks["none"][1], np.random.default_rng(seed + 1))
        details = {"ranks": pack_ranks(now), "base": pack_ranks(base), "test_share": 0.25, "targets": {target: told}}
        return rows, {**details, "two_releases": {} if defense == "none" else {target: told}}

    def membership(cell, leaks, rng):
        names = (cell.at["data"], cell.label("target"), cell.label("defense"))
        attacks = {name: leaks[name] for name in cell.at["attack"].split(",")} | {"any-overlap": leaks["rule"]}
        rows = []
        for name, value in attacks.items():
            where = Estimate(value, value - 0.02, value + 0.02, 400)
            for metric in ("auc", "balanced_accuracy"):
                rows.append(Record(*names, name, "membership", cell.seed, metric, where))
            if name != "any-overlap":
                gap = value - leaks["rule"]
                ahead = Estimate(gap, gap - 0.02, gap + 0.02, 400)
                rows.append(Record(*names, name, "membership", cell.seed, "auc_ahead_of_rules", ahead))
        return rows, {"attacks": {name: {"rule": name == "any-overlap"} for name in attacks}}

    def fill(plan, leaks, *, fail=(), skip=(), name="study"):
        store = create_store(tmp_path / name, plan)
        describe_plan(store, plan)
        for number, cell in enumerate(plan.cells()):
            key = (cell.label("defense"), cell.seed)
            if key in skip:
                continue
            if key in fail:
                store.write_failure(cell.id, {"cell": cell.to_dict(), "error": "DataError: <b>broken</b>"})
                continue
            make = attribute if cell.kind == "attribute" else membership
            rows, details = make(cell, leaks, np.random.default_rng(number))
            content = {"cell": cell.to_dict(), "records": [r.to_dict() for r in rows], "details": details}
            store.write_cell(cell.id, content, {"seconds": {"train undefended": 2.0, "defend": 0.5, "audit": 1.0}})
        return store

    return fill
