"""The effect of each part of `sliced`: attackers, utility, displacement and seconds on MovieLens, as Markdown.

    RECVEIL_DATA=... python benchmarks/sliced.py [--data ml-1m ml-100k] [--seeds 2] [--part tables|shuffled|new|speed]
    python benchmarks/sliced.py --part rival
    RECVEIL_DATA=... python benchmarks/sliced.py --part rounds [--models "puresvd, d = 48"] [--attackers knn xgboost]
    RECVEIL_DATA=... python benchmarks/sliced.py --part several --attackers knn xgboost qda

tables: the ablation; balanced accuracy of each attacker, the two-sided advantage of the headline with its interval, and
the paired change of NDCG@10 of the test item. shuffled: the same with classes assigned to the users at random: there is
nothing to hide, so whatever attackers find, the defense made. new: users who were not in the fit. speed: 1,000,000 x
64, two classes. rival: CPU seconds beside `attrcloak-df` on 6,040 made-up users. rounds: fewer and more of them, on
some of the users of Last.fm, gender; no table of the papers has these users. several: two attributes at once, of the
same users.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from unittest.mock import patch

import numpy as np

from recveil.attacks.attribute.panels import make_attack, make_panel
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.protocols import AttributeAttack
from recveil.core.random import make_generator
from recveil.core.types import Attribute, Dataset, Split
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.defenses.embeddings import sliced
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.sliced import Sliced
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.metrics.ranking import collect_seen_items, estimate_difference, make_dot_scorer, ndcg, rank
from recveil.models.bprmf import BPRMF
from recveil.models.construction import make_model
from recveil.models.ncf import NCF
from recveil.models.puresvd import PureSVD
from recveil.testing.worlds import make_planted_leak
from recveil.transport.moments import Moments
from recveil.workflows.defended_release import ChosenDefense, defend_vectors, measure_displacement

ATTACKERS = {**make_panel("fast", "cpu"), "forest": make_attack("forest", "cpu")}
METHODS = {
    "undefended": None,
    "gaussian": Gaussian(device="cpu"),
    "no draw": Sliced(drawn=False, device="cpu"),
    "no rounds": Sliced(rounds=0, device="cpu"),
    "plain moments": Sliced(device="cpu"),
    "moves in full": Sliced(device="cpu"),
    "less all that chance would move": Sliced(device="cpu"),
    "columns as other axes": Sliced(device="cpu"),
    "random axes only": Sliced(device="cpu"),
    "sliced": Sliced(device="cpu"),
    "sliced, unit norm": Sliced(norm="unit", device="cpu"),
}
CHANGED = {
    "plain moments": {"fit_bulk_moments": lambda x, codes, n_classes, max_rows: Moments.from_rows(x, codes, n_classes)},
    "moves in full": {"CHANCE_SHARE": 0.0, "COLUMN_CHANCE_SHARE": 0.0},
    "columns as other axes": {"COLUMN_CHANCE_SHARE": 0.2},
    "less all that chance would move": {"CHANCE_SHARE": 1e9},
    "random axes only": {"SUBSPACE_CYCLE": (1,)},
}
"""What of the module is another in these lines."""

DRAWS = 4
LIGHT, HEAVY = (150, 75, 40), (75, 40, 30)
"""Users for each round in the part `rounds`, by the tails of the table."""

ROUNDED = {
    "bprmf, d = 32": ("bprmf", {"embedding_size": 32, "recency": 0.0}, LIGHT),
    "lightgcn, d = 32": ("lightgcn", {"embedding_size": 32, "recency": 0.0}, LIGHT),
    "bprmf, d = 128": ("bprmf", {"embedding_size": 128, "recency": 0.0, "epochs": 10}, LIGHT),
    "puresvd, d = 48": ("puresvd", {"embedding_size": 48}, HEAVY),
}
"""The models of the part `rounds`."""

TOGETHER = {
    "bprmf, d = 64": ("bprmf", {"embedding_size": 64}),
    "dmf, d = 64": ("dmf", {"embedding_size": 64, "epochs": 6}),
}
"""The models of the part `several`."""

SHORT = ("undefended", "moves in full", "sliced", "sliced, unit norm")
SHUFFLED = (
    "undefended",
    "gaussian",
    "plain moments",
    "moves in full",
    "less all that chance would move",
    "columns as other axes",
    "sliced",
)


def cloaked(label: str, x: np.ndarray, codes: np.ndarray, seed: int = 0) -> np.ndarray:
    """Apply the method of this line to the table."""
    method = METHODS[label]
    if method is None:
        return x
    with ExitStack() as stack:
        for name, value in CHANGED.get(label, {}).items():
            stack.enter_context(patch.object(sliced, name, value))
        return method(x, codes, rng=make_generator(seed, "cloak"))


@dataclass(frozen=True)
class World:
    """A trained model and what it knows of its users."""

    name: str
    dataset: Dataset
    split: Split
    users: np.ndarray
    items: np.ndarray | None  # None: no dot product, attacked only

    def quality(self, users: np.ndarray) -> np.ndarray:
        """Compute NDCG@10 of each user's test item."""
        seen = collect_seen_items(self.split.train, self.split.valid)
        return ndcg(rank(make_dot_scorer(users, self.items), self.split.test, seen), 10)


def worlds(name: str) -> list[World]:
    """Train BPR-MF (d = 32), PureSVD (d = 48; 24 where users are few) and NCF (two tables of 32), leave-one-out."""
    dataset = load_dataset(name)
    split = leave_one_out(dataset)
    epochs, d = (15, 48) if dataset.n_users > 2000 else (30, 24)
    model = BPRMF(embedding_size=32, epochs=epochs, device="cpu").fit(split, rng=make_generator(0, "train"))
    factors = PureSVD(embedding_size=d).fit(split, rng=make_generator(0, "train"))
    wide = NCF(embedding_size=32, epochs=3, device="cpu").fit(split, rng=make_generator(0, "train"))
    return [
        World(f"{name}, BPR-MF d = 32", dataset, split, model.user_vectors_, model.item_vectors_),
        World(f"{name}, PureSVD d = {d}", dataset, split, factors.user_vectors_, factors.item_vectors_),
        World(f"{name}, NCF d = {wide.user_vectors_.shape[1]}", dataset, split, wide.user_vectors_, None),
    ]


def row(world: World, secret: Attribute, label: str, seeds: int) -> str:
    """Print one line of the ablation."""
    before, start = world.quality(world.users), time.perf_counter()
    x = cloaked(label, world.users, secret.codes)
    seconds = time.perf_counter() - start
    change, scale = estimate_difference(world.quality(x), before), 100 / before.mean()
    found = audit_attribute(x, secret, ATTACKERS, rules=CrossValidation(5, seeds), seed=0)
    seen = " | ".join(f"{a.balanced_accuracy.value:.3f}" for a in found.attacks.values())
    a = found.headline.advantage
    ndcg10 = f"{change.value * scale:+.1f} [{change.low * scale:+.1f}, {change.high * scale:+.1f}]"
    return (
        f"| {secret.name} | {label} | {seen} | {a.value:.3f} [{a.low:.3f}, {a.high:.3f}] | {ndcg10} | "
        f"{measure_displacement(world.users, x):.3f} | {seconds:.2f} |"
    )


def ablation(world: World, seeds: int) -> None:
    """Print all methods for gender, the main ones for age."""
    print(f"\n{world.name}, NDCG@10 {world.quality(world.users).mean():.4f}, {seeds} x 5 folds\n")
    names = " | ".join(ATTACKERS)
    print(f"| target | method | {names} | advantage | NDCG@10 change, % | displacement | seconds |")
    print("| --- " * (len(ATTACKERS) + 6) + "|")
    for target, labels in (("gender", tuple(METHODS)), ("age3", SHORT)):
        for label in labels:
            print(row(world, world.dataset.attributes[target], label, seeds), flush=True)


def shuffled(world: World, draws: int = 4) -> None:
    """Print the same with random classes of the same sizes: whatever attackers find, the defense made."""
    print(f"\n{world.name}: classes assigned at random, mean of {draws} draws, balanced accuracy\n")
    print(f"| target | method | {' | '.join(ATTACKERS)} | displacement |\n{'| --- ' * (len(ATTACKERS) + 3)}|")
    for target in ("gender", "age3"):
        for label in SHUFFLED:
            found, far = [], []
            for seed in range(draws):
                order = make_generator(seed, "dealt").permutation(len(world.users))
                secret = world.dataset.attributes[target].take(order)
                x = cloaked(label, world.users, secret.codes, seed)
                seen = audit_attribute(x, secret, ATTACKERS, rules=CrossValidation(5, 1), seed=seed).attacks.values()
                found.append([a.balanced_accuracy.value for a in seen])
                far.append(measure_displacement(world.users, x))
            numbers = " | ".join(f"{v:.3f}" for v in [*np.mean(found, axis=0), np.mean(far)])
            print(f"| {target} | {label} | {numbers} |", flush=True)


def newcomers(world: World) -> None:
    """Fit on four fifths of the users; the attacker learns from their released table and meets the others."""
    secret = world.dataset.attributes["gender"]
    print(f"\n{world.name}: users who were not in the fit (one fifth, 5 times), balanced accuracy\n")
    print(f"| they go through | {' | '.join(ATTACKERS)} |\n{'| --- ' * (len(ATTACKERS) + 1)}|")
    parts = np.array_split(make_generator(0, "newcomers").permutation(len(world.users)), 5)
    for label in ("nothing", "the exact map of their class", "the map without labels"):
        print(f"| {label} | {' | '.join(f'{v:.3f}' for v in _met(world, secret.codes, parts, label))} |", flush=True)


def _met(world: World, codes: np.ndarray, parts: list[np.ndarray], label: str) -> np.ndarray:
    from recveil.attacks.attribute.tasks import Task

    found = []
    for late in parts:
        early = np.setdiff1d(np.arange(len(codes)), late)
        x, method = world.users.copy(), Sliced(device="cpu")
        x[early] = method.fit_transform(world.users[early], codes[early])
        if label != "nothing":
            x[late] = method.transform(world.users[late], codes[late] if "exact" in label else None)
        task = [Task(early, late)]
        guesses = [a.guess(x, codes, 2, task, rng=make_generator(0, n))[0] for n, a in ATTACKERS.items()]
        found.append([balanced_accuracy(compute_confusion(codes[late], g.argmax(1), 2)) for g in guesses])
    return np.mean(found, axis=0)


def rounds(models: list[str], attackers: list[str]) -> None:
    """Print how the number of rounds was chosen: what is left, and what is inverted, for parts of the users."""
    dataset = load_dataset("lastfm-360k-15k")
    split, secret = leave_one_out(dataset), dataset.attributes["gender"]
    judges = {name: make_attack(name, "cpu") for name in attackers}
    print(f"\nMean of {DRAWS} draws of the users (standard error)\n")
    print(f"| model | users | rounds | {' | '.join(judges)} | displacement |\n{'| --- ' * (len(judges) + 4)}|")
    for label in models:
        name, options, users = ROUNDED[label]
        x = make_model(name, dataset.name, options, "cpu").fit(split, rng=make_generator(7, "train")).user_vectors_
        for n, each in product((3000, 6000), users):
            found = [_of_some(x, secret, n, n // each, seed, judges) for seed in range(DRAWS)]
            mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / DRAWS**0.5
            cells = " | ".join(f"{m:.3f} ({e:.3f})" for m, e in zip(mean[:-1], error[:-1], strict=True))
            print(f"| {label} | {n} | {n // each} | {cells} | {mean[-1]:.3f} |", flush=True)


def _of_some(
    x: np.ndarray, secret: Attribute, n: int, count: int, seed: int, judges: dict[str, AttributeAttack]
) -> list[float]:
    """Return each attacker's accuracy on a part of the users after so many rounds, and the displacement."""
    some = np.sort(make_generator(seed, "some").choice(len(x), n, replace=False))
    mine = secret.take(some)
    out = Sliced(rounds=count, device="cpu")(x[some], mine.codes, rng=make_generator(seed, "cloak"))
    seen = audit_attribute(out, mine, judges, rules=CrossValidation(5, 1), seed=seed).attacks.values()
    return [*(a.balanced_accuracy.value for a in seen), measure_displacement(x[some], out)]


def several(attackers: list[str], n: int = 6000) -> None:
    """Print gender and country (largest, next nine, others) at once, true and shuffled."""
    dataset = load_dataset("lastfm-360k-15k")
    split, judges = leave_one_out(dataset), {name: make_attack(name, "cpu") for name in attackers}
    gender, country = (dataset.attributes[name] for name in ("gender", "country"))
    place = np.argsort(np.argsort(-country.counts))[country.codes]
    targets = [gender, Attribute("country", np.digitize(place, (1, 10)), ("the largest", "the next nine", "others"))]
    head = " | ".join(f"{target.name}, {name}" for target in targets for name in judges)
    print(f"\nParts of {n} users, mean of {DRAWS} draws (standard error), balanced accuracy\n")
    print(f"| model | classes | rounds | {head} | displacement |\n{'| --- ' * (4 + 2 * len(judges))}|")
    for label, (name, options) in TOGETHER.items():
        x = make_model(name, dataset.name, options, "cpu").fit(split, rng=make_generator(7, "train")).user_vectors_
        for is_shuffled, after in product((False, True), (False, True)):
            with patch.object(sliced, "split_attributes", sliced.split_attributes if after else lambda codes: []):
                found = [_together(x, targets, n, seed, judges, shuffle=is_shuffled) for seed in range(DRAWS)]
            mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / DRAWS**0.5
            cells = " | ".join(f"{m:.3f} ({e:.3f})" for m, e in zip(mean[:-1], error[:-1], strict=True))
            which = "shuffled" if is_shuffled else "true", "then each attribute" if after else "joint cells"
            print(f"| {label} | {' | '.join(which)} | {cells} | {mean[-1]:.3f} |", flush=True)


def _together(
    x: np.ndarray, targets: list[Attribute], n: int, seed: int, judges: dict[str, AttributeAttack], *, shuffle: bool
) -> list[float]:
    """Return each attacker's accuracy on each attribute after both were hidden, and the displacement."""
    some = np.sort(make_generator(seed, "some").choice(len(x), n, replace=False))
    mine = [target.take(make_generator(seed, "dealt").permutation(some) if shuffle else some) for target in targets]
    codes = np.stack([target.codes for target in mine], axis=1)
    out = Sliced(device="cpu")(x[some], codes, rng=make_generator(seed, "cloak"))
    seen = [
        audit_attribute(out, target, judges, rules=CrossValidation(5, 1), seed=seed).attacks.values() for target in mine
    ]
    return [*(a.balanced_accuracy.value for each in seen for a in each), measure_displacement(x[some], out)]


def speed(device: str) -> None:
    """Print seconds for a million users; a smaller table warms up the device."""
    x, secret = make_planted_leak(1_000_000, 64, 2, 1.0, rng=make_generator(0, "speed"))
    for name, method in (("gaussian", Gaussian(device=device)), ("sliced", Sliced(device=device))):
        for n in (30_000, len(x)):
            start = time.perf_counter()
            method(x[:n], secret.codes[:n], rng=make_generator(0, "cloak"))
        print(f"{name}: 1,000,000 x 64, 2 classes, {device}, {time.perf_counter() - start:.2f} s", flush=True)


def compare_with_rival() -> None:
    """Print CPU seconds of `sliced` and of `attrcloak-df` on one core; a smaller table warms up both."""
    names = ("sliced", "attrcloak-df")
    for d in (32, 64, 128):
        x, secret = make_planted_leak(6_040, d, 2, 1.0, rng=make_generator(0, "rival"))
        seconds = dict.fromkeys(names, 0.0)
        for name, n in product(names, (600, len(x))):
            start = time.process_time()
            defend_vectors(ChosenDefense(name).make("cpu"), x[:n], [secret.take(np.arange(n))], seed=0)
            seconds[name] = time.process_time() - start
        taken = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
        print(f"6,040 x {d}: {taken}, {seconds['attrcloak-df'] / seconds['sliced']:.1f} times", flush=True)


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", default=["ml-1m", "ml-100k"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--part", nargs="+", default=["tables", "shuffled", "new", "speed"])
    parser.add_argument("--device", default="cpu", help="of the speed part")
    parser.add_argument("--models", nargs="+", default=list(ROUNDED), choices=ROUNDED, help="of the rounds part")
    parser.add_argument("--attackers", nargs="+", default=["knn", "svm-rbf", "mlp-2", "lda"], help="likewise")
    options = parser.parse_args()
    for name in options.data if {"tables", "shuffled", "new"} & set(options.part) else []:
        for world in worlds(name):
            if "shuffled" in options.part:
                shuffled(world)
            if "tables" in options.part and world.items is not None:
                ablation(world, options.seeds)
            if "new" in options.part and world.items is not None:
                newcomers(world)
    if "rounds" in options.part:
        rounds(options.models, options.attackers)
    if "several" in options.part:
        several(options.attackers)
    if "speed" in options.part:
        speed(options.device)
    if "rival" in options.part:
        compare_with_rival()


if __name__ == "__main__":
    main()
