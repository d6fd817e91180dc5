"""`cloak --method auto` on many tables: which defense it takes, what strong attackers find, and what it costs.

    python benchmarks/cloak_tables.py --tables ml-1m:als:gender lastfm-360k-15k:puresvd:gender --seeds 0 1 2 > lines

RECVEIL_DATA names the folder with the data sets. Each line is one JSON object: one table and one seed (of the model,
of the defense and of the folds). The audit at the end has other folds than the self-check.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings

import numpy as np

from recveil.attacks.attribute.panels import make_panel
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.random import make_generator
from recveil.core.result_parts import InputSummary
from recveil.core.types import Dataset
from recveil.data.cleaning import k_core
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.metrics.ranking import collect_seen_items, ndcg, rank
from recveil.models.construction import make_model
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.defended_release import ChosenDefense


def load_table(name: str) -> Dataset:
    """Load a data set; `name@5` is its 5-core."""
    base, _, core = name.partition("@")
    dataset = load_dataset(base)
    return k_core(dataset, user_core=int(core), item_core=int(core)) if core else dataset


def measure_table(job: tuple[str, int, str, str]) -> dict[str, object]:
    """Train, cloak and audit one table."""
    spec, seed, method, device = job
    warnings.simplefilter("ignore")
    name, model_name, target = spec.split(":")
    clock = time.perf_counter()
    dataset = load_table(name)
    split, secret = leave_one_out(dataset), dataset.attributes[target]
    model = make_model(model_name, dataset.name, {}, device).fit(split, rng=make_generator(seed, "train"))
    x, trained = model.user_vectors_, time.perf_counter()
    table = ClearTable(InputSummary(name=spec, n_users=len(x), d=x.shape[1]), x, [secret])
    protocol = AuditProtocol(seed=seed, device=device)
    cloaked, result = cloak_table(table, ChosenDefense(method), protocol, audit=False, check=True)
    cloak_end = time.perf_counter()
    panel = {**make_panel("fast", device), **make_panel("strong", device)}
    rules = CrossValidation(5, 2, max_repeats=2)
    audits = [audit_attribute(t, secret, panel, rules=rules, seed=seed + 1_000) for t in (x, cloaked)]
    seen = collect_seen_items(split.train, split.valid)
    gains = [ndcg(rank(lambda u, t=t: model.score(u, t[u]), split.test, seen), 10) for t in (x, cloaked)]
    loss = 100 * (np.mean(gains[1]) / np.mean(gains[0]) - 1)
    error = 196 * np.std(gains[1] - gains[0]) / np.sqrt(len(x)) / np.mean(gains[0])
    spans = [
        [round(v, 4) for v in (a.headline.advantage.value, a.headline.advantage.low, a.headline.advantage.high)]
        for a in audits
    ]
    scores = [{n: round(a.balanced_accuracy.value, 3) for n, a in audit.attacks.items()} for audit in audits]
    raised = sorted(n for n in scores[0] if scores[1][n] > max(scores[0][n], 1 / len(secret.labels) + 0.03))
    check = result.self_check
    return {
        "table": spec,
        "seed": seed,
        "shape": x.shape,
        "method": result.defense.name,
        "tried": {} if check is None else {n: round(v, 4) for n, v in check.tried.items()},
        "passed": check is not None and check.passed,
        "before": spans[0],
        "after": spans[1],
        "raised": raised,
        "attacks_after": scores[1],
        "ndcg_change": round(loss, 2),
        "ndcg_error": round(error, 2),
        "seconds": [
            round(trained - clock, 1),
            round(cloak_end - trained, 1),
            round(time.perf_counter() - cloak_end, 1),
        ],
    }


def main() -> None:
    """Print the lines of the tables that were named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", required=True, help="data[@core]:model:attribute")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--method", default="auto")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    jobs = [(spec, seed, given.method, given.device) for seed in given.seeds for spec in given.tables]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for row in pool.imap_unordered(_measure_safely, jobs):
            print(json.dumps(row), flush=True)


def _measure_safely(job: tuple[str, int, str, str]) -> dict[str, object]:
    try:
        return measure_table(job)
    except Exception as error:  # noqa: BLE001, one table that fails must not end the others
        return {"table": job[0], "seed": job[1], "error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
