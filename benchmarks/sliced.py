"""What each part of `sliced` does: attackers, utility, displacement and seconds on MovieLens, as Markdown.

    RECVEIL_DATA=... python benchmarks/sliced.py [--data ml-1m ml-100k] [--seeds 2] [--part tables|new|speed]

tables: the ablation; balanced accuracy of each attacker, the two-sided advantage of the headline with its interval, and
the paired change of NDCG@10 of the test item. new: users who were not in the fit. speed: 1,000,000 x 64, two classes.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import time
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import svds

from recveil.audit import audit
from recveil.catalog import ATTACKS, panel
from recveil.core import Attribute, Dataset, Split
from recveil.data.sources import load
from recveil.data.split import leave_one_out
from recveil.defenses.embeddings import sliced
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.sliced import Sliced
from recveil.games import Folds
from recveil.metrics.leakage import balanced_accuracy, confusion
from recveil.metrics.ranking import difference, dot, ndcg, rank, seen_items
from recveil.models.bprmf import BPRMF
from recveil.protect import displacement
from recveil.random import generator
from recveil.testing.worlds import planted_leak

ATTACKERS = {**panel("fast", "cpu"), "forest": ATTACKS["forest"]("cpu")}
METHODS = {
    "undefended": None,
    "gaussian": Gaussian(device="cpu"),
    "60 exact rounds, no draw": Sliced(rounds=60, drawn=False, device="cpu"),
    "no exact rounds": Sliced(rounds=0, device="cpu"),
    "20 exact rounds": Sliced(rounds=20, device="cpu"),
    "60 rounds, random axes only": Sliced(rounds=60, device="cpu"),
    "sliced (60 rounds)": Sliced(rounds=60, device="cpu"),
    "sliced, unit norm": Sliced(rounds=60, norm="unit", device="cpu"),
}
SHORT = ("undefended", "sliced (60 rounds)", "sliced, unit norm")


@dataclass(frozen=True)
class World:
    """A trained model and what it knows of its users."""

    name: str
    dataset: Dataset
    split: Split
    users: np.ndarray
    items: np.ndarray

    def quality(self, users: np.ndarray) -> np.ndarray:
        """NDCG@10 of each user's test item."""
        seen = seen_items(self.split.train, self.split.valid)
        return ndcg(rank(dot(users, self.items), self.split.test, seen), 10)


def worlds(name: str) -> list[World]:
    """BPR-MF (d = 32) and PureSVD (d = 48; 24 where users are few), leave-one-out."""
    dataset = load(name)
    split = leave_one_out(dataset)
    epochs, d = (15, 48) if dataset.n_users > 2000 else (30, 24)
    model = BPRMF(embedding_size=32, epochs=epochs, device="cpu").fit(split, rng=generator(0, "train"))
    matrix = seen_items(split.train).astype(np.float64)
    left, values, right = svds(matrix, k=d, v0=np.ones(min(matrix.shape)))
    factors = (left * values).astype(np.float32), right.T.astype(np.float32)
    return [
        World(f"{name}, BPR-MF d = 32", dataset, split, model.user_vectors_, model.item_vectors_),
        World(f"{name}, PureSVD d = {d}", dataset, split, *factors),
    ]


def row(world: World, secret: Attribute, label: str, seeds: int) -> str:
    """One line of the ablation."""
    method, before = METHODS[label], world.quality(world.users)
    sliced.CYCLE = (1,) if "random axes" in label else (8, 4, 2, 1, 0)
    start = time.perf_counter()
    x = world.users if method is None else method(world.users, secret.codes, rng=generator(0, "cloak"))
    seconds = time.perf_counter() - start
    change, scale = difference(world.quality(x), before), 100 / before.mean()
    found = audit(x, secret, ATTACKERS, rules=Folds(5, seeds), seed=0)
    seen = " | ".join(f"{a.balanced_accuracy.value:.3f}" for a in found.attacks.values())
    a = found.headline.advantage
    ndcg10 = f"{change.value * scale:+.1f} [{change.low * scale:+.1f}, {change.high * scale:+.1f}]"
    return (
        f"| {secret.name} | {label} | {seen} | {a.value:.3f} [{a.low:.3f}, {a.high:.3f}] | {ndcg10} | "
        f"{displacement(world.users, x):.3f} | {seconds:.2f} |"
    )


def ablation(world: World, seeds: int) -> None:
    """All methods for gender, the main ones for age."""
    print(f"\n{world.name}, NDCG@10 {world.quality(world.users).mean():.4f}, {seeds} x 5 folds\n")
    names = " | ".join(ATTACKERS)
    print(f"| target | method | {names} | advantage | NDCG@10 change, % | displacement | seconds |")
    print("| --- " * (len(ATTACKERS) + 6) + "|")
    for target, labels in (("gender", tuple(METHODS)), ("age3", SHORT)):
        for label in labels:
            print(row(world, world.dataset.attributes[target], label, seeds), flush=True)


def newcomers(world: World) -> None:
    """Fit on four fifths of the users; the attacker learns from their released table and meets the others."""
    secret = world.dataset.attributes["gender"]
    print(f"\n{world.name}: users who were not in the fit (one fifth, 5 times), balanced accuracy\n")
    print(f"| they go through | {' | '.join(ATTACKERS)} |\n{'| --- ' * (len(ATTACKERS) + 1)}|")
    parts = np.array_split(generator(0, "newcomers").permutation(len(world.users)), 5)
    for label in ("nothing", "the exact map of their class", "the map without labels"):
        print(f"| {label} | {' | '.join(f'{v:.3f}' for v in _met(world, secret.codes, parts, label))} |", flush=True)


def _met(world: World, codes: np.ndarray, parts: list[np.ndarray], label: str) -> np.ndarray:
    from recveil.attacks.attribute.tasks import Task

    found = []
    for late in parts:
        early = np.setdiff1d(np.arange(len(codes)), late)
        x, method = world.users.copy(), Sliced(device="cpu")
        x[early] = method.fit_transform(world.users[early], codes[early], rng=generator(0, "cloak"))
        if label != "nothing":
            x[late] = method.transform(world.users[late], codes[late] if "exact" in label else None)
        task = [Task(early, late)]
        guesses = [a.guess(x, codes, 2, task, rng=generator(0, n))[0] for n, a in ATTACKERS.items()]
        found.append([balanced_accuracy(confusion(codes[late], g.argmax(1), 2)) for g in guesses])
    return np.mean(found, axis=0)


def speed(device: str) -> None:
    """Seconds for a million users; a smaller table goes first, so that no number pays for starting up the device."""
    x, secret = planted_leak(1_000_000, 64, 2, 1.0, rng=generator(0, "speed"))
    for name, method in (("gaussian", Gaussian(device=device)), ("sliced", Sliced(device=device))):
        for n in (30_000, len(x)):
            start = time.perf_counter()
            method(x[:n], secret.codes[:n], rng=generator(0, "cloak"))
        print(f"{name}: 1,000,000 x 64, 2 classes, {device}, {time.perf_counter() - start:.2f} s", flush=True)


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", default=["ml-1m", "ml-100k"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--part", nargs="+", default=["tables", "new", "speed"])
    parser.add_argument("--device", default="cpu", help="of the speed part")
    options = parser.parse_args()
    for name in options.data if {"tables", "new"} & set(options.part) else []:
        for world in worlds(name):
            if "tables" in options.part:
                ablation(world, options.seeds)
            if "new" in options.part:
                newcomers(world)
    if "speed" in options.part:
        speed(options.device)


if __name__ == "__main__":
    main()
