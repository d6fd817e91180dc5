"""The cost of RAID: barycenter and couplings against POT's, their growth, and an epoch of Phase II against a plain one.

    RECVEIL_DATA=... python benchmarks/raid.py [--device cpu|cuda] [--part pot|growth|passes] [--data ml-1m]

pot: 6,040 users, 512 atoms, d = 32, two classes. POT has no penalized barycenter, so its exact solver (`ot.emd2`, CPU)
serves the usual descent on the weights (Cuturi and Doucet 2014, Algorithm 1) until that comes within 1e-3 of our
objective (which it is told: it has no gap to stop by), or for --patience seconds; both are then computed exactly.
Couplings are against `ot.bregman.sinkhorn_log`, on the same device. growth: the same at 6,040, 25,000 and 100,000
users. passes: through the models' own `fit`, plain and defended in turn: the mean of four passes, in Phase II one of
them with a new barycenter.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch

from recveil.core.progress import report_progress
from recveil.core.random import make_generator
from recveil.core.types import Split
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.defenses.training.raid import Raid
from recveil.models.construction import make_model
from recveil.transport.barycenter import Barycenter, fit_barycenter
from recveil.transport.distances import compute_squared_distances, compute_typical_distance
from recveil.transport.sinkhorn import TransportPlan, sinkhorn

ATOMS, D, TAU, EPSILON = 512, 32, 0.1, 0.05
STEP = 0.5
"""First step of POT's descent: of 0.1, 0.3, 0.5, 0.8, falling or constant, what needs the fewest steps (4; 0.1: 59)."""

PASSES = 5
"""One of Phase I, not counted; then Phase II: one with a new barycenter and three without."""


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
    methods = (None, Raid(phase_one=1 / PASSES))
    clock = 0 if device == "cpu" else 1
    print(f"\n{data}, {device}, {torch.get_num_threads()} threads, xi = 4, {'CPU' if clock == 0 else 'wall'} seconds")
    print("| model | plain | raid | ratio |\n| --- | --- | --- | --- |")
    for name in names:
        found = [[pass_seconds(name, split, data, method, device) for method in methods] for _ in range(rounds)]
        plain, defended = np.min(found, axis=0)[:, clock]
        print(f"| {name} | {plain:.2f} | {defended:.2f} | {defended / plain:.2f} |", flush=True)


def main() -> None:
    """Run the requested parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--part", nargs="+", default=["pot", "growth", "passes"])
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--models", nargs="+", default=["bprmf", "dmf", "ncf", "lightgcn"])
    parser.add_argument("--rounds", type=int, default=2, help="how often each pass is timed")
    parser.add_argument("--patience", type=float, default=120.0, help="CPU seconds that POT's descent may take")
    given = parser.parse_args()
    if "pot" in given.part:
        against_pot(given.device, given.patience)
    if "growth" in given.part:
        growth(given.device)
    if "passes" in given.part:
        passes(given.device, given.data, given.models, given.rounds)


if __name__ == "__main__":
    main()
