"""What defenses do for undisclosed users: the rehearsal attackers, and the price in NDCG@10.

    python benchmarks/labelfree.py --tables ml-1m:puresvd:gender --methods sliced labelfree --hidden 0.5 --seeds 0

RECVEIL_DATA names the folder with the data sets. Each line is one table, method and seed (of the model, the defense and
the hidden users): the three advantages of the rehearsal with their intervals, and the paired change of NDCG@10, the
mean over validation and test items. Trained vectors are kept in `--keep`, since training takes most of the time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from recveil.attacks.attribute.panels import parse_attackers
from recveil.audits.attribute.rehearsal import attack_hidden_users, hide_classes
from recveil.core.random import make_generator
from recveil.core.types import Estimate, Split
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.metrics.ranking import collect_seen_items, ndcg, rank
from recveil.models.construction import make_model
from recveil.workflows.defended_release import ChosenDefense, defend_vectors, measure_displacement

ATTACKS = "logistic,mlp,kernel-ridge,trees"


def train_vectors(spec: str, split: Split, seed: int, keep: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Train the model of a table, or read the vectors that an earlier run kept."""
    name, model_name, _ = spec.split(":")
    path = None if keep is None else keep / f"{name}-{model_name}-{seed}.npz"
    if path is not None and path.is_file():
        with np.load(path) as kept:
            return kept["users"], kept["items"]
    model = make_model(model_name, name, {}, "cpu").fit(split, rng=make_generator(seed, "train"))
    if path is not None:
        np.savez(path, users=model.user_vectors_, items=model.item_vectors_)
    return model.user_vectors_, model.item_vectors_


def measure_gains(users: np.ndarray, items: np.ndarray, split: Split) -> np.ndarray:
    """Return NDCG@10 of each user and held-out item."""

    def score(rows: np.ndarray, vectors: np.ndarray = users) -> np.ndarray:
        return np.asarray(vectors[rows] @ items.T)

    parts = [(split.valid, collect_seen_items(split.train)), (split.test, collect_seen_items(split.train, split.valid))]
    return np.concatenate([ndcg(rank(score, held_out, seen), 10) for held_out, seen in parts])


def format_estimate(estimate: Estimate) -> str:
    """Format a number with its interval."""
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def measure_table(spec: str, methods: list[str], hidden: float, seed: int, keep: Path | None) -> None:
    """Print one line for each method."""
    name, _, target = spec.split(":")
    dataset = load_dataset(name)
    split, secret = leave_one_out(dataset), dataset.attributes[target]
    users, items = train_vectors(spec, split, seed, keep)
    start = measure_gains(users, items, split)
    shown = hide_classes(secret, hidden, seed=seed)
    for method in methods:
        clock = time.perf_counter()
        table = users
        if method != "none":
            table = defend_vectors(ChosenDefense(method).make("cpu"), users, [shown], seed=seed)
        seconds = time.perf_counter() - clock
        change = measure_gains(table, items, split) - start
        error = 196 * change.std() / np.sqrt(len(change)) / start.mean()
        found = attack_hidden_users(table, secret, shown, parse_attackers(ATTACKS, "cpu"), seed=seed)
        numbers = [found.from_disclosed, found.knows_some, found.disclosure]
        print(
            f"| {spec} | {seed} | {hidden:g} | {method} | {' | '.join(map(format_estimate, numbers))} | "
            f"{100 * change.mean() / start.mean():+.1f} +- {error:.1f} | {measure_displacement(users, table):.2f} | "
            f"{seconds:.1f} |",
            flush=True,
        )


def main() -> None:
    """Print the lines of the tables that were named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="+", required=True, help="data:model:attribute")
    parser.add_argument("--methods", nargs="+", default=["none", "sliced", "labelfree"])
    parser.add_argument("--hidden", nargs="+", type=float, default=[0.5])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--keep", type=Path, default=None, help="folder for trained vectors")
    given = parser.parse_args()
    print("| table | seed | hidden | method | from disclosed | knows half | disclosure | NDCG@10, % | moved | s |")
    print("| --- " * 10 + "|", flush=True)
    for seed in given.seeds:
        for spec in given.tables:
            for hidden in given.hidden:
                measure_table(spec, given.methods, hidden, seed, given.keep)


if __name__ == "__main__":
    main()
