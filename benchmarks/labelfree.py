"""What defenses do for undisclosed and later users: the rehearsal attackers, and the price in NDCG@10.

    python benchmarks/labelfree.py --tables ml-1m:puresvd:gender --methods sliced labelfree --hidden 0.5 --seeds 0 1

RECVEIL_DATA names the folder with the data sets. Each line is one JSON object: one table, method and seed (of the
model, the defense and the hidden users), with the three advantages of the rehearsal and their intervals, and the paired
change of NDCG@10 in per cent, the mean over validation and test items. `--later 0.3` also fits the map without 30 % of
the users, who arrive afterwards and are carried by the stored map without a class. The last lines are means over seeds.
Trained vectors are kept in `--keep`, since training takes most of the time. Each table and seed is one process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np

from recveil.attacks.attribute.panels import parse_attackers
from recveil.audits.attribute.rehearsal import attack_hidden_users, hide_classes
from recveil.core.device import resolve_device
from recveil.core.random import make_generator
from recveil.core.types import Attribute, Estimate, FloatArray, Split
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.defenses import DEFENSES
from recveil.metrics.ranking import collect_seen_items, ndcg, rank
from recveil.models.construction import make_model
from recveil.workflows.defended_release import ChosenDefense, defend_vectors, stack_codes

ATTACKS = "logistic,mlp,kernel-ridge,trees"
ATTACKERS = ("from_disclosed", "knows_some", "disclosure")
Job = tuple[str, int, argparse.Namespace]


def train_vectors(
    spec: str, split: Split, seed: int, keep: Path | None, device: str = "cpu"
) -> tuple[FloatArray, FloatArray]:
    """Train the model of a table, or read the vectors that an earlier run kept."""
    name, model_name, _ = spec.split(":")
    path = None if keep is None else keep / f"{name}-{model_name}-{seed}.npz"
    if path is not None and path.is_file():
        with np.load(path) as kept:
            return kept["users"], kept["items"]
    model = make_model(model_name, name, {}, device).fit(split, rng=make_generator(seed, "train"))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, users=model.user_vectors_, items=model.item_vectors_)
    return model.user_vectors_, model.item_vectors_


def measure_gains(users: FloatArray, items: FloatArray, split: Split) -> FloatArray:
    """Return NDCG@10 of each user and held-out item."""

    def score(rows: FloatArray, vectors: FloatArray = users) -> FloatArray:
        return np.asarray(vectors[rows] @ items.T)

    parts = [(split.valid, collect_seen_items(split.train)), (split.test, collect_seen_items(split.train, split.valid))]
    return np.concatenate([ndcg(rank(score, held_out, seen), 10) for held_out, seen in parts])


def defend(method: str, x: FloatArray, shown: Attribute, seed: int) -> FloatArray:
    """Defend the table of users of whom some are undisclosed."""
    return x if method == "none" else defend_vectors(ChosenDefense(method).make("cpu"), x, [shown], seed=seed)


def carry_later_users(method: str, x: FloatArray, shown: Attribute, seed: int) -> FloatArray:
    """Defend the disclosed users, then carry the others by the map, as if they came afterwards."""
    early, codes = shown.known, stack_codes([shown])
    defense = ChosenDefense(method).make("cpu")
    table, fitted = defense.compute_release(x[early], codes[early], make_generator(seed, "cloak"))
    out = np.empty(x.shape, dtype=np.float32)
    out[early] = table
    out[~early] = fitted(x[~early], np.full_like(codes[~early], -1), resolve_device("cpu"))
    return out


def measure_table(job: Job) -> list[dict[str, object]]:
    """Train one table, and attack what each method leaves of it."""
    warnings.simplefilter("ignore")
    spec, seed, given = job
    name, _, target = spec.split(":")
    dataset = load_dataset(name)
    split, secret = leave_one_out(dataset), dataset.attributes[target]
    x, items = train_vectors(spec, split, seed, given.keep, given.device)
    start, rows = measure_gains(x, items, split), list[dict[str, object]]()
    plans = [("hidden", share, method) for share in given.hidden for method in given.methods]
    with_map = [m for m in given.methods if m != "none" and DEFENSES.traits(m).keeps_map]
    plans += [("later", share, method) for share in given.later for method in with_map]
    for kind, share, method in plans:
        shown, clock = hide_classes(secret, share, seed=seed), time.process_time()
        table = (defend if kind == "hidden" else carry_later_users)(method, x, shown, seed)
        seconds = time.process_time() - clock
        change = measure_gains(table, items, split) - start
        error = 196 * change.std() / np.sqrt(len(change)) / start.mean()
        found = attack_hidden_users(table, secret, shown, parse_attackers(ATTACKS, "cpu"), seed=seed)
        row: dict[str, object] = {"table": spec, "shape": x.shape, "seed": seed, kind: share, "method": method}
        row |= {attacker: round_estimate(getattr(found, attacker)) for attacker in ATTACKERS}
        price = round(100 * float(change.mean() / start.mean()), 2)
        rows.append(row | {"ndcg_change": [price, round(float(error), 2)], "cpu_seconds": round(seconds, 1)})
    return rows


def round_estimate(estimate: Estimate) -> list[float]:
    """Return value, low and high."""
    return [round(number, 3) for number in (estimate.value, estimate.low, estimate.high)]


def summarize(rows: list[dict[str, object]]) -> list[str]:
    """Return one line of a table for each table, share and method: the means over the seeds."""
    groups = defaultdict(list)
    for row in rows:
        kind = "later" if "later" in row else "hidden"
        groups[row["table"], kind, row[kind], row["method"]].append(row)
    lines = []
    for key, members in groups.items():
        means = [np.mean([row[name] for row in members], axis=0) for name in ATTACKERS]  # type: ignore[misc]
        worst = [max(row[name][2] for row in members) for name in ATTACKERS]  # type: ignore[index]
        pairs = zip(means, worst, strict=True)
        cells = [f"{mean[0]:.3f} [{mean[1]:.3f}, {mean[2]:.3f}] ({top:.3f})" for mean, top in pairs]
        price = np.mean([row["ndcg_change"] for row in members], axis=0)  # type: ignore[misc]
        lines.append(f"| {' | '.join(map(str, key))} | {len(members)} | {' | '.join(cells)} | {price[0]:+.1f} |")
    return lines


def main() -> None:
    """Print the lines of the tables that were named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", required=True, help="data:model:attribute; slow models first")
    parser.add_argument("--methods", nargs="+", default=["none", "sliced", "labelfree"])
    parser.add_argument("--hidden", nargs="*", type=float, default=[0.5])
    parser.add_argument("--later", nargs="*", type=float, default=[])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--keep", type=Path, default=None, help="folder for trained vectors")
    parser.add_argument("--device", default="cpu", help="where models are trained")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    jobs = [(spec, seed, given) for spec in given.tables for seed in given.seeds]
    rows = []
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for part in pool.imap_unordered(measure_table, jobs):
            rows += part
            print("\n".join(map(json.dumps, part)), flush=True)
    print("| table | kind | share | method | seeds | " + " | ".join(ATTACKERS) + " | NDCG@10, % |")
    print("| --- " * 9 + "|")
    print("\n".join(summarize(rows)))


if __name__ == "__main__":
    main()
