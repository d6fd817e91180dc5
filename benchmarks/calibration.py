"""Calibration of the audit: false alarms, power, inversion, injection and coverage over many synthetic worlds.

    python benchmarks/calibration.py [--scale 1.0] [--panels fast,full] [--jobs 2] > research/notes/calibration.md
    python benchmarks/calibration.py --coverage [--scale 1.0] [--jobs 2] >> research/notes/calibration.md

With --scale 1 the fast panel is run on 400 worlds without a leak, of which at most 31 may be called one, and on 260
with one; the full panel on a tenth of these. --coverage repeats cross-validation five times on worlds without a leak
and with a planted one, as the protocol of published tables does, and counts how many intervals cover the truth. Both
print their part of the page in Markdown, with the command that made it.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable

import numpy as np

from recveil.attacks.attribute.panels import make_panel
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.random import make_generator
from recveil.testing.worlds import (
    compute_bayes_accuracy,
    make_injected_label,
    make_inverted_leak,
    make_no_leak,
    make_planted_leak,
)

RULES, PROTOCOL = CrossValidation(5, 1), CrossValidation(5, 5)
WITHOUT = [(200, 300, 8, 2), (100, 300, 16, 3), (100, 600, 8, 5)]  # worlds, users, dimensions, classes
SHARE = {"full": 0.1}  # of the worlds
WITH = [(100, 1000, 4, 2), (60, 1000, 4, 3)]


def one(job: tuple) -> dict:
    """Audit one world."""
    kind, options, seed, panel_name, rules = job
    rng = make_generator(seed, kind, *map(str, options))
    makers: dict[str, Callable] = {
        "none": lambda n, d, K: make_no_leak(n, d, K, rng=rng),
        "planted": lambda n, d, K, size: make_planted_leak(n, d, K, size, rng=rng),
        "inverted": lambda n, d, K: make_inverted_leak(n, d, K, rng=rng),
        "injected": lambda name, n: make_injected_label(name, n=n, d=8, rng=rng),
    }
    x, secret = makers[kind](*options)[:2]
    found = audit_attribute(x, secret, make_panel(panel_name, "cpu"), rules=rules, seed=seed)
    attacks = {**found.attacks, "headline": found.headline}
    spans = {
        name: (a.balanced_accuracy.value, a.balanced_accuracy.low, a.balanced_accuracy.high)
        for name, a in attacks.items()
    }
    return {"verdict": found.verdict, "spans": spans, "detectable": found.detectable}


def distance_for(advantage: float, K: int) -> float:
    """Find the distance between class means at which the best possible attack has this advantage."""
    low, high = 0.0, 10.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if (K * compute_bayes_accuracy(K, middle) - 1) / (K - 1) < advantage else (low, middle)
        )
    return high


def counted(rows: list[dict]) -> str:
    """Count the verdicts leak, none and inconclusive."""
    return " | ".join(str(sum(r["verdict"] == v for r in rows)) for v in ("leak", "none", "inconclusive"))


def coverage(rows: list[dict]) -> dict[str, float]:
    """Compute for each attacker the share of intervals that cover its mean over all worlds of this kind."""
    shares = {}
    for name in rows[0]["spans"]:
        spans = np.array([r["spans"][name] for r in rows])
        truth = spans[:, 0].mean()
        shares[name] = float(((spans[:, 1] <= truth) & (truth <= spans[:, 2])).mean())
    return shares


def listed(shares: dict[str, float]) -> str:
    """List shares in one line."""
    return ", ".join(f"{name} {share:.2f}" for name, share in shares.items())


def covered_by_protocol(scale: float, pool: object) -> None:
    """Print how often the intervals of the fast panel cover the truth in five folds with five repeats."""
    print(f"\n## Coverage, {PROTOCOL.folds} folds x {PROTOCOL.repeats} repeats\n")
    print(f"Written by `python benchmarks/calibration.py --coverage --scale {scale:g}`, the `fast` panel. Balanced")
    print("accuracy of each attacker, and of the headline, against its mean over the worlds of a row.\n")
    sizes = [one(("none", (n, d, K), 0, "fast", RULES))["detectable"] for _, n, d, K in WITH]
    without = [(f"no leak, {n} users, {K} classes", "none", (n, d, K), count) for count, n, d, K in WITHOUT]
    planted = [
        (f"planted leak, {n} users, {K} classes", "planted", (n, d, K, distance_for(size, K)), count)
        for (count, n, d, K), size in zip(WITH, sizes, strict=True)
    ]
    every: list[tuple[int, dict]] = []
    for world, kind, options, count in [*without, *planted]:
        jobs = [(kind, options, seed, "fast", PROTOCOL) for seed in range(max(2, round(count * scale)))]
        rows = pool.map(one, jobs, chunksize=1)
        every.append((len(rows), coverage(rows)))
        print(f"- {world}, {len(rows)} worlds: {listed(every[-1][1])}", flush=True)
    runs = sum(n for n, _ in every)
    total = {name: sum(n * shares[name] for n, shares in every) / runs for name in every[0][1]}
    attackers = np.mean([share for name, share in total.items() if name != "headline"])
    print(f"\nOver all {runs} worlds: {listed(total)}; all attackers together {attackers:.3f}.")


def section(panel_name: str, scale: float, pool: object) -> None:
    """Run all worlds with one panel and print the verdicts."""
    start = time.time()

    def runs(kind: str, options: tuple, count: int) -> list[dict]:
        jobs = [(kind, options, seed, panel_name, RULES) for seed in range(max(2, round(count * scale)))]
        rows = pool.map(one, jobs, chunksize=1)
        print(f"{kind} {options}: {counted(rows)} ({time.time() - start:.0f} s)", file=sys.stderr, flush=True)
        return rows

    def line(world: str, rows: list[dict]) -> None:
        print(f"| {world} | {len(rows)} | {counted(rows)} |", flush=True)

    print(f"\n## The `{panel_name}` panel\n")
    print("| world | runs | leak | none | inconclusive |\n| --- | --- | --- | --- | --- |")
    alarms, total, covered = 0, 0, []
    for count, n, d, K in WITHOUT:
        rows = runs("none", (n, d, K), count)
        alarms, total = alarms + sum(r["verdict"] == "leak" for r in rows), total + len(rows)
        covered.append((f"no leak, {n} users, {d} dimensions, {K} classes", rows))
        line(covered[-1][0], rows)
    for count, n, d, K in WITH:
        size = one(("none", (n, d, K), 0, "fast", RULES))["detectable"]
        rows = runs("planted", (n, d, K, distance_for(size, K)), count)
        covered.append((f"planted leak, {n} users, {K} classes", rows))
        line(f"planted leak of the size called detectable ({size:.2f}), {n} users, {d} dimensions, {K} classes", rows)
    line("class moments equalized in sample, 400 users", runs("inverted", (400, 16, 2), 40))
    for name in ("scale", "parity", "low-bits"):
        line(f"label hidden in {name}, 1000 users", runs("injected", (name, 1000), 20))
    print(f"\nFalse alarms: {alarms} of {total} ({alarms / total:.1%}).\n")
    if scale == 1:
        print(
            "Coverage of the 95 % intervals of balanced accuracy (of each attacker's mean over the worlds of a row):\n"
        )
        for world, rows in covered:
            print(f"- {world}: {listed(coverage(rows))}")


def main() -> None:
    """Run both panels and print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--panels", default="fast,full")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--coverage", action="store_true", help="only how often intervals cover, in five repeats")
    given = parser.parse_args()
    if given.coverage:
        with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
            covered_by_protocol(given.scale, pool)
        return
    print("# Calibration of the audit\n")
    print(f"Written by `python benchmarks/calibration.py --scale {given.scale:g} --panels {given.panels}`:")
    print(
        f"{RULES.folds} folds, one repeat, margin 0.05. A planted leak has the best possible advantage that the audit"
    )
    print("itself calls detectable with that many users.")
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for name in given.panels.split(","):
            section(name, given.scale * SHARE.get(name, 1.0), pool)


if __name__ == "__main__":
    main()
