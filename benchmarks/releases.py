"""A week of daily releases of nearly the same users: what an attacker gains who holds all seven tables.

    python benchmarks/releases.py --tables ml-1m:puresvd:gender --methods sliced exchange --seeds 0 1 > lines

RECVEIL_DATA names the folder with the data sets. Each line is one JSON object: one table, method, policy and seed. Each
day 2 % of the users leave and as many join. The policies: `fresh` cloaks every day with a new seed, `fixed` with the
same seed, `map` fits on the first day and carries every user by the saved map each day, `keep` releases the first day's
table, then lets users keep their vectors and carries new users by the map (`recveil apply --released`). Advantages are
those of the last table alone, of all seven for the users who are in all of them, and of the last table's new users with
the others. `--drift` adds noise to the undefended vectors every day, in standard deviations of a column.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import warnings

import numpy as np

from recveil.attacks.attribute.panels import parse_attackers
from recveil.attacks.attribute.surfaces import join_releases
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.random import make_generator
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.defenses import DEFENSES
from recveil.models.construction import make_model
from recveil.workflows.defended_release import ChosenDefense, defend_vectors, stack_codes

DAYS, NEW_SHARE = 7, 0.02
Job = tuple[str, str, int, float, argparse.Namespace]


def plan_days(n: int, rng: np.random.Generator) -> list[IntArray]:
    """Return the users of each day."""
    order = rng.permutation(n)
    size = int(n / (1 + (DAYS - 1) * NEW_SHARE))
    step = int(NEW_SHARE * size)
    return [order[day * step : day * step + size] for day in range(DAYS)]


def release_week(x: list[FloatArray], days: list[IntArray], secret: Attribute, job: Job) -> dict[str, list[FloatArray]]:
    """Return the seven tables of each policy, with one row for every user there ever is."""
    _, method, seed, _, given = job

    def cloak(day: int, draw: int) -> FloatArray:
        table, users = np.full_like(x[day], np.nan), days[day]
        defense = ChosenDefense(method).make(given.device)
        table[users] = defend_vectors(defense, x[day][users], [secret.take(users)], seed=draw)
        return table

    week = dict[str, list[FloatArray]]()
    if "fresh" in given.policies:
        week["fresh"] = [cloak(day, 1_000 * seed + day) for day in range(DAYS)]
    if "fixed" in given.policies:
        week["fixed"] = [cloak(day, seed) for day in range(DAYS)]
    if not DEFENSES.traits(method).keeps_map:
        return week
    users, codes = days[0], stack_codes([secret])
    defense = ChosenDefense(method).make(given.device)
    fitted = defense.compute_release(x[0][users], codes[users], make_generator(seed, "cloak"))[1]
    carried = [fitted(table, codes, given.device) for table in x]
    if "map" in given.policies:
        week["map"] = carried
    if "keep" in given.policies:
        week["keep"] = [cloak(0, seed)]
        for table in carried[1:]:
            kept = week["keep"][-1]
            week["keep"].append(np.where(np.isfinite(kept), kept, table))
    return week


def measure_week(job: Job) -> list[dict[str, object]]:
    """Train a model, release it seven times by each policy, and attack what was released."""
    spec, method, seed, drift, given = job
    warnings.simplefilter("ignore")
    name, model_name, target = spec.split(":")
    dataset = load_dataset(name)
    split, secret = leave_one_out(dataset), dataset.attributes[target]
    model = make_model(model_name, name, {}, given.device).fit(split, rng=make_generator(seed, "train"))
    rng, start = make_generator(seed, "week"), model.user_vectors_
    noise = drift * start.std(0)
    x = [start + noise * rng.standard_normal(start.shape).astype(np.float32) for _ in range(DAYS)]
    days = plan_days(len(start), rng)
    common = np.intersect1d(days[0], days[-1])
    panel, rules = parse_attackers(given.panel, given.device), CrossValidation(5, 1, max_repeats=1)

    def attack(table: FloatArray, users: IntArray) -> list[float]:
        table = np.ascontiguousarray(table[:, table.std(0) > 0])
        found = audit_attribute(table, secret.take(users), panel, rules=rules, seed=seed + 1_000).headline.advantage
        return [round(v, 3) for v in (found.value, found.low, found.high)]

    rows: list[dict[str, object]] = []
    for policy, tables in release_week(x, days, secret, job).items():
        rows.append(
            {
                "table": spec,
                "method": method,
                "policy": policy,
                "seed": seed,
                "drift": drift,
                "last table": attack(tables[-1][common], common),
                "all tables": attack(join_releases(*(table[common] for table in tables)), common),
                "last table with new users": attack(tables[-1][days[-1]], days[-1]),
            }
        )
    return rows


def main() -> None:
    """Print the lines of the tables that were named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", required=True, help="data:model:attribute")
    parser.add_argument("--methods", nargs="+", default=["sliced"])
    parser.add_argument("--policies", nargs="+", default=["fresh", "fixed", "map", "keep"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--drift", nargs="+", type=float, default=[0.0])
    parser.add_argument("--panel", default="logistic,mlp,kernel-ridge,trees")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    jobs = [
        (spec, method, seed, drift, given)
        for seed in given.seeds
        for spec in given.tables
        for method in given.methods
        for drift in given.drift
    ]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for rows in pool.imap_unordered(measure_week, jobs):
            for row in rows:
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
