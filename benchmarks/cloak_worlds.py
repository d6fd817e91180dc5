"""`cloak` on made-up tables of many shapes: what strong attackers find before and after, and for permuted labels.

    python benchmarks/cloak_worlds.py --worlds 200 --jobs 2 > lines

Each line is one JSON object. The shapes are those that real tables have: uneven activity, heavy tails, many users near
one point, clusters, discrete columns, non-negative columns, constant and duplicated columns, very small and very large
scales, unit length, and saturated columns. `permuted` is the advantage that the same audit finds for permuted labels on
the undefended table: what chance gives at that size.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from collections.abc import Callable

import numpy as np

from recveil.attacks.attribute.panels import make_panel
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.random import make_generator
from recveil.core.result_parts import InputSummary
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.defended_release import ChosenDefense

Shape = Callable[[FloatArray, np.random.Generator], FloatArray]


def _quantize(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    return np.round(2 * x) / 2


def _cluster(x: FloatArray, rng: np.random.Generator) -> FloatArray:
    centers = 2 * rng.standard_normal((40, x.shape[1]))
    nearest = ((x[:, None] - centers) ** 2).sum(2).argmin(1)
    return centers[nearest] + 0.1 * x


SHAPES: dict[str, Shape] = {
    "uneven": lambda x, rng: x * np.exp(1.2 * rng.standard_normal((len(x), 1))),
    "tails": lambda x, rng: np.sign(x) * np.abs(x) ** 2.5,
    "point": lambda x, rng: x * np.where(rng.random((len(x), 1)) < 0.5, 1e-3, 1.0),
    "clusters": _cluster,
    "discrete": _quantize,
    "rectified": lambda x, rng: np.maximum(x - 0.5, 0),
    "constant": lambda x, rng: np.hstack([x, np.full((len(x), 1), 3.0), x[:, :2]]),
    "tiny": lambda x, rng: 1e-6 * x,
    "huge": lambda x, rng: 1e6 * x + 1e7,
    "unit": lambda x, rng: x / np.linalg.norm(x, axis=1, keepdims=True),
    "saturated": lambda x, rng: np.tanh(3 * x),
}


def make_world(number: int) -> tuple[str, FloatArray, Attribute]:
    """Make a table of the shape whose turn it is, with classes that differ in means, spreads and a bend."""
    rng = np.random.default_rng([7, number])
    kind = list(SHAPES)[number % len(SHAPES)]
    n, d, K = int(rng.integers(1_500, 4_000)), int(rng.integers(6, 33)), int(rng.choice([2, 2, 3]))
    codes: IntArray = rng.choice(K, n, p=rng.dirichlet(np.full(K, 8.0)))
    mixing = rng.standard_normal((d, d)) / np.sqrt(d)
    factors = rng.standard_normal((n, d)) * (1 + 0.2 * rng.standard_normal((K, d)))[codes]
    factors += rng.uniform(0.2, 0.6) * rng.standard_normal((K, d))[codes]
    factors[:, 0] += 0.3 * codes * factors[:, 1] ** 2
    x = SHAPES[kind](factors @ mixing, rng).astype(np.float32)
    return kind, x, Attribute("class", codes, tuple(f"class {k}" for k in range(K)))


def measure_world(job: tuple[int, str, str]) -> dict[str, object]:
    """Cloak one world and audit it before, after, and with permuted labels."""
    number, method, device = job
    warnings.simplefilter("ignore")
    kind, x, secret = make_world(number)
    start = time.process_time()
    table = ClearTable(InputSummary(name=kind, n_users=len(x), d=x.shape[1]), x, [secret])
    protocol = AuditProtocol(seed=number, device=device)
    cloaked, result = cloak_table(table, ChosenDefense(method), protocol, audit=False, check=True)
    seconds = time.process_time() - start
    panel = {**make_panel("fast", device), **make_panel("strong", device)}
    permuted = Attribute("class", make_generator(number, "permuted").permutation(secret.codes), secret.labels)
    rules = CrossValidation(5, 1, max_repeats=1)
    jobs = {"before": (x, secret), "after": (cloaked, secret), "permuted": (x, permuted)}
    audits = {k: audit_attribute(*job, panel, rules=rules, seed=number + 1_000) for k, job in jobs.items()}
    found = {k: a.headline.advantage for k, a in audits.items()}
    return {
        "world": number,
        "kind": kind,
        "shape": [*x.shape, len(secret.labels)],
        "method": result.defense.name,
        "passed": result.self_check is not None and result.self_check.passed,
        **{k: [round(v, 4) for v in (a.value, a.low, a.high)] for k, a in found.items()},
        "attacks_after": {n: round(a.balanced_accuracy.value, 3) for n, a in audits["after"].attacks.items()},
        "displacement": round(float(result.defense.displacement), 3),
        "cpu_seconds": round(seconds, 1),
    }


def _measure_safely(job: tuple[int, str, str]) -> dict[str, object]:
    try:
        return measure_world(job)
    except Exception as error:  # noqa: BLE001, one world that fails must not end the others
        return {"world": job[0], "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Print the lines of the worlds, and the counts at the end."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    jobs = [(n, given.method, given.device) for n in range(given.first, given.first + given.worlds)]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        rows = []
        for row in pool.imap_unordered(_measure_safely, jobs):
            rows.append(row)
            print(json.dumps(row), flush=True)
    done = [row for row in rows if "error" not in row]
    if done:
        chance = max(0.05, float(np.quantile([row["permuted"][0] for row in done], 0.95)))
        hidden = sum(row["after"][0] <= chance for row in done)
        raised = sum(row["after"][0] > max(row["before"][0], chance) for row in done)
        counts = {"worlds": len(rows), "failed": len(rows) - len(done), "chance": chance}
        print(json.dumps({**counts, "hidden": hidden, "raised": raised}))


if __name__ == "__main__":
    main()
