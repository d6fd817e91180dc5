"""The cost of RAID: barycenter and couplings against POT's, their growth, and an epoch of Phase II against a plain one.

    RECVEIL_DATA=... python benchmarks/raid.py [--device cpu|cuda] [--part pot|growth|passes] [--data ml-1m]
    RECVEIL_DATA=... python benchmarks/raid.py --part eta --models ncf --targets gender   how strong to pull
    RECVEIL_DATA=... python benchmarks/raid.py --part choice --models lightgcn            when to keep Phase II
    python benchmarks/raid.py --part gain --results studies/more_raid

pot: 6,040 users, 512 atoms, d = 32, two classes. POT has no penalized barycenter, so its exact solver (`ot.emd2`, CPU)
serves the usual descent on the weights (Cuturi and Doucet 2014, Algorithm 1) until that comes within 1e-3 of our
objective (which it is told: it has no gap to stop by), or for --patience seconds; both are then computed exactly.
Couplings are against `ot.bregman.sinkhorn_log`, on the same device. growth: the same at 6,040, 25,000 and 100,000
users. passes: through the models' own `fit`, plain and defended in turn: the mean of four passes, in Phase II one of
them with a new barycenter. eta: NDCG@10 of the validation items after `raid` with several eta, and after `sliced`,
against the undefended model, for seeds that no table has. choice: by how clear a lead, on validation items, a pass of
Phase II should be kept in place of the model it started from. gain: from the cells of a study, what the pull changes in
NDCG@10 against the same training and final map without it, and against `sliced` after training; paired by user, mean
over the seeds first, those seeds that both have.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from recveil.core.device import deterministic_algorithms
from recveil.core.progress import report_progress
from recveil.core.protocols import Recommender
from recveil.core.random import make_generator
from recveil.core.types import Attribute, Split
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.training.raid import Raid, RaidPaper
from recveil.metrics.ranking import collect_seen_items, ndcg, rank
from recveil.models import training_loop as loop
from recveil.models.construction import make_model
from recveil.transport.barycenter import Barycenter, fit_barycenter
from recveil.transport.distances import compute_squared_distances, compute_typical_distance
from recveil.transport.sinkhorn import TransportPlan, sinkhorn
from recveil.workflows.defended_release import stack_codes

ATOMS, D, TAU, EPSILON = 512, 32, 0.1, 0.05
STEP = 0.5
"""First step of POT's descent: of 0.1, 0.3, 0.5, 0.8, falling or constant, what needs the fewest steps (4; 0.1: 59)."""

PASSES = 5
"""One of Phase I, not counted; then Phase II: one with a new barycenter and three without."""

HALVES = 400

LEADS, PULLS = (0.0, 1.0, 2.0), (0.001, 0.03)

ETAS, CHOICE_SEEDS = (0.0, 0.003, 0.01, 0.03), (100, 101, 102)


class World:
    """Two Gaussian classes, 72 and 28 %, with means and covariances of their own."""

    def __init__(self, n: int, device: str) -> None:
        draws = torch.Generator().manual_seed(0)
        codes = (torch.rand(n, generator=draws) < 0.28).long()
        shapes = torch.eye(D) + torch.randn(2, D, D, generator=draws) / D**0.5
        z = torch.randn(n, D, generator=draws)
        x = torch.where(codes[:, None] == 0, z @ shapes[0], z @ shapes[1] + 0.5)
        atoms = x[torch.randperm(n, generator=draws)[:ATOMS]]
        self.x, self.codes, self.atoms = x.to(device), codes.to(device), atoms.to(device)
        self.unit = compute_typical_distance(self.x)
        self.lam = torch.bincount(codes).double().numpy() / n

    def barycenter(self) -> Barycenter:
        return fit_barycenter(self.x, self.codes, self.atoms, tau=TAU * self.unit, tolerance=1e-3)

    def couplings(self, weights: torch.Tensor) -> TransportPlan:
        cost = compute_squared_distances(self.x, self.atoms)
        return sinkhorn(cost, self.codes, weights, epsilon=EPSILON * self.unit, tolerance=1e-3)

    def costs(self) -> list[torch.Tensor]:
        return [compute_squared_distances(self.x[self.codes == k], self.atoms) for k in range(2)]


def timed(work: Callable[[], Any]) -> tuple[Any, np.ndarray]:
    """Return the result of the work and its CPU and wall seconds."""
    start = now()
    result = work()
    return result, now() - start


def now() -> np.ndarray:
    """Return CPU seconds of this process and wall seconds, once the device is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return np.array([time.process_time(), time.perf_counter()])


def exact(world: World, a: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the objective at these weights by POT's exact transport, and the sum of the atoms' duals."""
    import ot as pot  # only where it is needed: growth and passes also run where POT is not installed

    value, slope = TAU * world.unit * float(a @ np.log(np.maximum(a, 1e-300))), np.zeros(ATOMS)
    for lam, cost in zip(world.lam, world.costs(), strict=True):
        even = np.full(len(cost), 1 / len(cost))
        worth, log = pot.emd2(even, a, cost.double().cpu().numpy(), log=True, numItermax=10**7)
        value, slope = value + lam * float(worth), slope + lam * np.asarray(log["v"])
    return value, slope


def descend(world: World, aim: float, patience: float) -> tuple[float, np.ndarray, int]:
    """Run mirror descent on the weights with POT's exact solver; return objective, seconds and steps to `aim`."""
    a, start, best, step = np.full(ATOMS, 1 / ATOMS), now(), np.inf, 0
    while (now() - start)[0] < patience:
        step += 1
        value, duals = exact(world, a)
        best = min(best, value)
        if best <= aim + 1e-3 * abs(aim):
            break
        slope = duals + TAU * world.unit * np.log(np.maximum(a, 1e-300))
        logits = np.log(np.maximum(a, 1e-300)) - STEP * (slope - slope.mean()) / (TAU * world.unit * step**0.5)
        a = np.exp(logits - logits.max())
        a /= a.sum()
    return best, now() - start, step


def their_couplings(world: World, weights: torch.Tensor) -> list[torch.Tensor]:
    """Compute POT's log-domain Sinkhorn, class by class, on the same device."""
    import ot as pot

    found = []
    for cost in world.costs():
        even = cost.new_full((len(cost),), 1 / len(cost))
        found.append(
            pot.bregman.sinkhorn_log(
                even, weights, cost, EPSILON * world.unit, numItermax=5000, stopThr=1e-4, warn=False
            )
        )
    return found


def against_pot(device: str, patience: float) -> None:
    """Print objective and seconds of both."""
    world, clock = World(6040, device), 0 if device == "cpu" else 1
    unit = world.unit
    world.couplings(world.barycenter().weights)  # warm
    print("\n| | objective / s | gap / s | CPU s | wall s | ratio |\n| --- | --- | --- | --- | --- | --- |")

    def row(name: str, value: float, gap: str, took: np.ndarray, ratio: str = "") -> None:
        print(f"| {name} | {value / unit:.5f} | {gap} | {took[0]:.2f} | {took[1]:.2f} | {ratio} |", flush=True)

    ours, took = timed(world.barycenter)
    weights = ours.weights.double().cpu().numpy()
    value, _ = exact(world, weights / weights.sum())
    row("barycenter, ours", value, f"{ours.gap / unit:.5f}", took)
    theirs, their_took, steps = descend(world, value, patience)
    row(f"POT, {steps} steps", theirs, "", their_took, f"{their_took[clock] / took[clock]:.1f}")
    plan, took = timed(lambda: world.couplings(ours.weights))
    T, codes = plan.compute_coupling(), world.codes
    mine = [float((T[codes == k] * plan.cost[codes == k]).sum()) for k in range(2)]
    row("couplings, ours", np.dot(world.lam, mine), "", took)
    found, their_took = timed(lambda: their_couplings(world, ours.weights))
    cost = [float((t * c).sum()) for t, c in zip(found, world.costs(), strict=True)]
    row("POT's", np.dot(world.lam, cost), "", their_took, f"{their_took[clock] / took[clock]:.1f}")


def growth(device: str) -> None:
    """Print seconds and memory by the number of users, and the exponent."""
    sizes, seconds, clock = (6040, 25_000, 100_000), [], 0 if device == "cpu" else 1
    World(1000, device).barycenter()  # warm
    print(f"\n{'CPU' if clock == 0 else 'wall'} seconds")
    print("| users | barycenter | couplings | gap / s | peak MiB |\n| --- | --- | --- | --- | --- |")
    for n in sizes:
        world = World(n, device)
        found, first = timed(world.barycenter)
        _, second = timed(lambda world=world, found=found: world.couplings(found.weights))
        seconds.append((first + second)[clock])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        if device != "cpu":
            peak = torch.cuda.max_memory_allocated() / 2**20
        gap = found.gap / world.unit
        print(f"| {n:,} | {first[clock]:.2f} | {second[clock]:.2f} | {gap:.5f} | {peak:,.0f} |", flush=True)
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    print(f"\nseconds grow as n^{exponent:.2f}")


class Stopwatch:
    """The times at which epochs begin: CPU seconds of this process and wall seconds."""

    def __init__(self) -> None:
        self.starts: list[np.ndarray] = []

    def __call__(self, items: Iterable[Any], label: str, total: int | None) -> Iterator[Any]:
        for item in items:
            self.starts.append(now())
            yield item
        self.starts.append(now())


def pass_seconds(name: str, split: Split, data: str, method: Raid | None, device: str) -> np.ndarray:
    """Return CPU and wall seconds of an epoch without the first one; without a method, of plain training."""
    model = make_model(name, data, {"epochs": PASSES}, device)
    gender = split.train.attributes["gender"]
    penalty = None if method is None else method([gender], epochs=PASSES, rng=make_generator(0, "raid"))
    watch = Stopwatch()
    with report_progress(watch):
        model.fit(split, penalty=penalty, rng=make_generator(0, "t"))
    return np.diff(watch.starts[1 : PASSES + 1], axis=0).mean(0)


def passes(device: str, data: str, names: list[str], rounds: int) -> None:
    """Print the ratio for every model: plain and defended in turn, the least of the rounds of each."""
    whole = leave_one_out(load_dataset(data))
    # Without a penalty the loop judges each pass on the validation items: there are none.
    split = Split(whole.train, whole.valid.take(np.zeros(len(whole.valid), dtype=bool)), whole.test)
    methods = (None, Raid(phase_one=1 / PASSES), RaidPaper(phase_one=1 / PASSES))
    clock = 0 if device == "cpu" else 1
    print(f"\n{data}, {device}, {torch.get_num_threads()} threads, xi = 4, {'CPU' if clock == 0 else 'wall'} seconds")
    print("| model | plain | raid | ratio | raid-paper | ratio |\n| --- | --- | --- | --- | --- | --- |")
    for name in names:
        found = [[pass_seconds(name, split, data, method, device) for method in methods] for _ in range(rounds)]
        plain, ours, paper = np.min(found, axis=0)[:, clock]
        print(
            f"| {name} | {plain:.2f} | {ours:.2f} | {ours / plain:.2f} | {paper:.2f} | {paper / plain:.2f} |",
            flush=True,
        )


def train(model: Recommender, split: Split, targets: list[Attribute], method: Raid | None, seed: int) -> None:
    """Train a model, with the penalty of a defense if one is given, as `recveil train` does."""
    penalty = None
    if method is not None:
        penalty = method(targets, epochs=model.epochs, rng=make_generator(seed, "cloak"))
    with deterministic_algorithms():
        model.fit(split, penalty=penalty, rng=make_generator(seed, "train"))


def strengths(device: str, data: str, names: list[str], targets: list[str]) -> None:
    """Print how `eta` is chosen: on the validation items, on models of seeds that no table has."""
    split = leave_one_out(load_dataset(data))

    def worth(name: str, seed: int, defense: Raid | Sliced | None, target: str) -> float:
        model = make_model(name, data, {}, device)
        secret = [split.train.attributes[target]]
        train(model, split, secret, defense if isinstance(defense, Raid) else None, seed)
        x = model.user_vectors_
        if isinstance(defense, Sliced):
            x = defense(x, stack_codes(secret), rng=make_generator(seed, "cloak"))
        found = rank(lambda users: model.score(users, x[users]), split.valid, collect_seen_items(split.train))
        return float(ndcg(found, 10).mean())

    ways = {"sliced": Sliced(device=device), **{f"eta {eta:g}": Raid(eta=eta, device=device) for eta in ETAS}}
    print(f"{data}, validation items, seeds {CHOICE_SEEDS}, change of NDCG@10 in per cent\n")
    print(f"| model | target | {' | '.join(ways)} |\n{'| --- ' * (2 + len(ways))}|")
    for name in names:
        plain = [worth(name, seed, None, targets[0]) for seed in CHOICE_SEEDS]
        for target in targets:
            after = [np.mean([worth(name, s, way, target) for s in CHOICE_SEEDS]) for way in ways.values()]
            cells = " | ".join(f"{100 * (value / np.mean(plain) - 1):+.1f}" for value in after)
            print(f"| {name} | {target} | {cells} |", flush=True)


def choice(device: str, data: str, names: list[str], targets: list[str], seeds: list[int]) -> None:
    """Print when to keep an epoch of Phase II: chosen by half of the users, judged by the others."""
    split = leave_one_out(load_dataset(data))
    print(f"{data}, validation items, seeds {seeds}: gain of Phase II over the model it started from, both finished,")
    print(f"in per cent of NDCG@10 for the half that did not choose; mean of {HALVES} halves; how often it was kept\n")
    print(f"| model | target | eta | {' | '.join(f'lead of {c:g} errors' for c in LEADS)} | always the best |")
    print("| --- " * (4 + len(LEADS)) + "|")
    for name, target, eta in product(names, targets, PULLS):
        secret = [split.train.attributes[target]]
        seen = [_phase_two(make_model(name, data, {}, device), split, secret, eta, seed) for seed in seeds]
        rows = [[_kept(*one, lead, half) for lead in (*LEADS, -np.inf) for one in seen] for half in range(HALVES)]
        found = np.mean(rows, axis=0).reshape(1 + len(LEADS), len(seen), 2).mean(1)
        cells = " | ".join(f"{100 * gain:+.2f} ({share:.0%})" for gain, share in found)
        print(f"| {name} | {target} | {eta:g} | {cells} |", flush=True)


def _phase_two(model: Any, split: Split, secret: list[Any], eta: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return NDCG@10 of each user's validation item before Phase II and after each of its epochs, all finished."""
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    def never(found: np.ndarray, rival: np.ndarray) -> bool:
        seen.append((found, rival))
        return False

    with patch.object(loop, "_is_clearly_better", never):
        train(model, split, secret, Raid(eta=eta), seed)
    if not seen:  # training kept its last pass: no Phase II, so nothing gained and nothing lost
        return np.ones(len(split.valid)), np.ones((1, len(split.valid)))
    return seen[0][1], np.array([found for found, _ in seen])


def _kept(rival: np.ndarray, found: np.ndarray, lead: float, half: int) -> tuple[float, bool]:
    """Return the gain of one half where the other half keeps its best epoch by this lead, and whether it does."""
    choosing, judging = np.array_split(make_generator(half, "half").permutation(len(rival)), 2)
    best = found[found[:, choosing].mean(1).argmax()]
    ahead = (best - rival)[choosing]
    if ahead.mean() <= lead * ahead.std() / len(ahead) ** 0.5:
        return 0.0, False
    return float((best - rival)[judging].mean() / rival[judging].mean()), True


def gain(folder: str) -> None:
    """Print RAID against itself without the pull, and against `sliced`, for every model and target of a study."""
    from recveil.metrics.ranking import estimate_difference
    from recveil.studies.pooled_seeds import average_over_seeds, pool_plan
    from recveil.studies.store import open_store

    store = open_store(folder)
    found = {
        (at["model"], at["target"], at["defense"]): one
        for one in pool_plan(store.read_plan(), [store])
        if (at := one.at)
    }
    print(f"`{folder}`, change of NDCG@10 in per cent, and the advantage that is left\n")
    print("| model | target | raid against eta 0 | raid against sliced | raid | eta 0 | sliced | seeds |")
    print("| --- " * 8 + "|")
    for model, target in dict.fromkeys(key[:2] for key in found):
        ours, plain, after = (found[model, target, name] for name in ("raid", "raid, eta 0", "sliced"))
        if not (ours.results and plain.results and after.results):
            continue
        cells = []
        for other in (plain, after):
            mine, theirs = (average_over_seeds(ranks) for ranks in _common(ours, other))
            change, scale = estimate_difference(mine, theirs), 100 / theirs.mean()
            cells.append(f"{scale * change.value:+.1f} [{scale * change.low:+.1f}, {scale * change.high:+.1f}]")
        for one in (ours, plain, after):
            a = one.estimate_headline(target)
            cells.append(f"{a.value:.3f} [{a.low:.3f}, {a.high:.3f}]")
        seeds = ", ".join(str(len(one.results)) for one in (ours, plain, after))
        print(f"| {model} | {target} | {' | '.join(cells)} | {seeds} |")


def _common(*lines: Any) -> list[list[str]]:
    """List the rankings of each combination, for the seeds that all of them have."""
    by_seed = [{r.cell.seed: r.attribute_details.ranks for r in one.results} for one in lines]
    seeds = sorted(set.intersection(*(set(one) for one in by_seed)))
    return [[one[seed] for seed in seeds] for one in by_seed]


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--part", nargs="+", default=["pot", "growth", "passes"])
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--models", nargs="+", default=["bprmf", "dmf", "ncf", "lightgcn"])
    parser.add_argument("--targets", nargs="+", default=["gender", "age3"], help="for eta and choice")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(CHOICE_SEEDS), help="for the part choice")
    parser.add_argument("--rounds", type=int, default=2, help="how often each pass is timed")
    parser.add_argument("--patience", type=float, default=120.0, help="CPU seconds that POT's descent may take")
    parser.add_argument("--results", default="studies/more_raid", help="folder of a study, for the part gain")
    given = parser.parse_args()
    if "gain" in given.part:
        gain(given.results)
    if "eta" in given.part:
        strengths(given.device, given.data, given.models, given.targets)
    if "choice" in given.part:
        choice(given.device, given.data, given.models, given.targets, given.seeds)
    if "pot" in given.part:
        against_pot(given.device, given.patience)
    if "growth" in given.part:
        growth(given.device)
    if "passes" in given.part:
        passes(given.device, given.data, given.models, given.rounds)


if __name__ == "__main__":
    main()
