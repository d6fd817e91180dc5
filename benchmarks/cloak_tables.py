"""`cloak --method auto` on many tables: which defense it takes, what strong attackers find, and what it costs.

    python benchmarks/cloak_tables.py --tables ml-1m:als:gender lastfm-360k-15k:puresvd:gender --seeds 0 1 2 > lines

RECVEIL_DATA names the folder with the data sets. Each line is one JSON object: one table and one seed (of the model,
of the defense and of the folds). The audit at the end has other folds than the self-check. NDCG@10 is that of the
validation and the test items together, and that of `gaussian` stands beside it: equal class means and covariances by
least displacement, which every hidden table must have. `--summary lines` prints the table of all seeds instead.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from recveil.attacks.attribute.panels import make_panel
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.protocols import Recommender
from recveil.core.random import make_generator
from recveil.core.result_parts import InputSummary
from recveil.core.types import Dataset, FloatArray, Split
from recveil.data.cleaning import k_core
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.metrics.ranking import collect_seen_items, ndcg, rank
from recveil.models.construction import make_model
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.defended_release import ChosenDefense, defend_vectors


def load_table(name: str) -> Dataset:
    """Load a data set; `name@5` is its 5-core."""
    base, _, core = name.partition("@")
    dataset = load_dataset(base)
    return k_core(dataset, user_core=int(core), item_core=int(core)) if core else dataset


def measure_table(job: tuple[str, int, str, str, int]) -> dict[str, object]:
    """Train, cloak and audit one table."""
    spec, seed, method, device, repeats = job
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
    rules = CrossValidation(5, repeats, max_repeats=repeats)
    audits = [audit_attribute(t, secret, panel, rules=rules, seed=seed + 1_000) for t in (x, cloaked)]
    plain = defend_vectors(ChosenDefense("gaussian").make(device), x, [secret], seed=seed)
    gains = [_compute_gains(model, split, vectors) for vectors in (x, cloaked, plain)]
    changes = [_compare_gains(gains[0], after) for after in gains[1:]]
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
        "classes": len(secret.labels),
        "method": result.defense.name,
        "tried": {} if check is None else {n: round(v, 4) for n, v in check.tried.items()},
        "passed": check is not None and check.passed,
        "before": spans[0],
        "after": spans[1],
        "raised": raised,
        "attacks_after": scores[1],
        "ndcg_change": changes[0],
        "ndcg_of_gaussian": changes[1],
        "seconds": [
            round(trained - clock, 1),
            round(cloak_end - trained, 1),
            round(time.perf_counter() - cloak_end, 1),
        ],
    }


def _compute_gains(model: Recommender, split: Split, vectors: FloatArray) -> FloatArray:
    """Return each user's NDCG@10 of the validation item and of the test item, one after the other."""
    parts = [(split.valid, collect_seen_items(split.train)), (split.test, collect_seen_items(split.train, split.valid))]
    return np.concatenate(
        [ndcg(rank(lambda u: model.score(u, vectors[u]), held_out, seen), 10) for held_out, seen in parts]
    )


def _compare_gains(before: FloatArray, after: FloatArray) -> tuple[float, float]:
    """Return the paired change of the mean in %, and its 95 % error."""
    error = 1.96 * np.std(after - before) / np.sqrt(len(before))
    return tuple(round(100 * float(v / before.mean()), 2) for v in (after.mean() - before.mean(), error))


def summarize_lines(rows: list[dict[str, Any]]) -> str:
    """Return a Markdown table: each line a table, with means over seeds and their 95 % t intervals."""
    tables = defaultdict(list)
    for row in rows:
        tables[row["table"]].append(row)
    lines = [
        "| table | seeds | before | after | largest upper end of a seed | farthest attacker | raised | refused | "
        "NDCG@10, % | `gaussian`, % |",
        "|" + " --- |" * 10,
    ]
    for name, seeds in tables.items():
        done = [row for row in seeds if "error" not in row]
        if not done:
            lines.append(f"| {name} | {seeds[0]['error']} |" + " |" * 8)
            continue
        chance = 1 / done[0]["classes"]
        scores = {a: np.mean([row["attacks_after"][a] for row in done]) for a in done[0]["attacks_after"]}
        far = max(scores, key=lambda a: abs(scores[a] - chance))
        cells = [
            f"{name} ({done[0]['shape'][0]:,} x {done[0]['shape'][1]}, {done[0]['classes']} classes)",
            str(len(done)),
            f"{np.mean([row['before'][0] for row in done]):.3f}",
            _describe_mean([row["after"][0] for row in done], floor=0.0, digits=3),
            f"{max(row['after'][2] for row in done):.3f}",
            f"{far} {scores[far]:.3f}",
            str(sum(bool(row["raised"]) for row in done)),
            str(sum(not row["passed"] for row in done)),
            _describe_mean([row["ndcg_change"][0] for row in done]),
            _describe_mean([row["ndcg_of_gaussian"][0] for row in done]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _describe_mean(values: list[float], *, floor: float = -np.inf, digits: int = 1) -> str:
    """Describe the mean and its t interval; a single value has none."""
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return f"{mean:.{digits}f}"
    reach = float(student.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
    return f"{mean:.{digits}f} [{max(floor, mean - reach):.{digits}f}, {mean + reach:.{digits}f}]"


def main() -> None:
    """Print the lines of the tables that were named, or the summary of lines that are there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", default=[], help="data[@core]:model:attribute")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--method", default="auto")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=2, help="repeats of the five folds of each audit")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--summary", type=Path, help="file of lines to summarize")
    given = parser.parse_args()
    if given.summary:
        print(summarize_lines([json.loads(line) for line in given.summary.read_text().splitlines() if line[:1] == "{"]))
        return
    jobs = [(spec, seed, given.method, given.device, given.repeats) for seed in given.seeds for spec in given.tables]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for row in pool.imap_unordered(_measure_safely, jobs):
            print(json.dumps(row), flush=True)


def _measure_safely(job: tuple[str, int, str, str, int]) -> dict[str, object]:
    try:
        return measure_table(job)
    except Exception as error:  # noqa: BLE001, one table that fails must not end the others
        return {"table": job[0], "seed": job[1], "error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
