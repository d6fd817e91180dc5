"""AttrCloak's privacy loss and gradient: closed form against automatic differentiation.

    python benchmarks/attrcloak.py [--device cuda] [--users 6040] [--dims 32]
    RECVEIL_DATA=... python benchmarks/attrcloak.py --whole

Both get the same table in float64; the ratio is that of the medians of many steps, taken in one run. With `--whole`:
`gaussian` and `sliced` against all of `attrcloak-df` on ML-1M (BPR-MF, d = 32), the best of three runs in turn.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from recveil.core.random import make_generator
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.defenses.embeddings.attrcloak import AttrCloakDF
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.sliced import Sliced
from recveil.models.bprmf import BPRMF
from recveil.transport.divergence import ClassRows, choose_ridge, compute_divergence, compute_gradient

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from oracles.divergence import compute_long_divergence  # noqa: E402

Answer = tuple[torch.Tensor, torch.Tensor]


def closed_form(x: torch.Tensor, classes: ClassRows, eps: float) -> Answer:
    """Compute a step of `attrcloak-df`."""
    fit = compute_divergence(classes.compute_moments(x), eps)
    return fit.value, compute_gradient(x, classes, fit)


def autograd(x: torch.Tensor, classes: ClassRows, eps: float) -> Answer:
    """Differentiate the long formula, as a step without the closed form would."""
    x = x.clone().requires_grad_()
    value = compute_long_divergence(x, classes, eps)
    (slope,) = torch.autograd.grad(value, x)
    return value.detach(), slope


def seconds(step: Callable[..., Answer], repeats: int, *given: object) -> float:
    """Return the median seconds of a call, over calls that follow each other as steps do."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        step(*given)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return median(taken)


def measure(n: int, d: int, K: int, device: str, repeats: int) -> None:
    """Print one line of the table."""
    draws = torch.Generator().manual_seed(0)
    codes = torch.randint(K, (n,), generator=draws).sort().values
    x = torch.randn(n, d, generator=draws, dtype=torch.float64) * (1 + codes[:, None] / K)
    x, classes, eps = x.to(device), ClassRows.from_codes(codes.to(device)), choose_ridge(x, 1e-3)
    ours, theirs = closed_form(x, classes, eps), autograd(x, classes, eps)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-7, atol=1e-12)
    # Five rows of each in turn, the best row of each: whoever else uses the machine slows both.
    rows = [[seconds(step, repeats, x, classes, eps) for step in (closed_form, autograd)] for _ in range(5)]
    fast, slow = (1000 * min(column) for column in zip(*rows, strict=True))
    print(f"| {n:,} x {d} | {K} | {fast:.2f} ms | {slow:.2f} ms | {slow / fast:.1f} |", flush=True)


def whole(device: str) -> None:
    """Print the seconds of whole methods on a table of ML-1M, and their ratio to `attrcloak-df`."""
    split = leave_one_out(load_dataset("ml-1m"))
    x = BPRMF(embedding_size=32, epochs=15, device=device).fit(split, rng=make_generator(0, "train")).user_vectors_
    methods = [AttrCloakDF(device=device), Gaussian(device=device), Sliced(device=device)]
    print("| target | attrcloak-df | gaussian | sliced | ratio of gaussian | ratio of sliced |")
    print("| --- | --- | --- | --- | --- | --- |")
    for target in ("gender", "age3"):
        codes = split.train.attributes[target].codes[:, None]
        best = [float("inf")] * len(methods)
        for _ in range(3):
            for k, method in enumerate(methods):
                start = time.perf_counter()
                method(x, codes, rng=make_generator(0, "cloak"))
                best[k] = min(best[k], time.perf_counter() - start)
        df, gaussian, sliced = best
        ratios = f"{df / gaussian:.0f} | {df / sliced:.1f}"
        print(f"| {target} | {df:.2f} s | {gaussian:.3f} s | {sliced:.2f} s | {ratios} |", flush=True)


def main() -> None:
    """Gender, age and occupation of ML-1M, by their numbers of classes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--users", type=int, default=6_040)
    parser.add_argument("--dims", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--whole", action="store_true", help="whole methods on ML-1M instead of single steps")
    given = parser.parse_args()
    if given.whole:
        whole(given.device)
        return
    print("| users x d | classes | closed form | autograd of the long formula | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for K in (2, 3, 7, 21):
        measure(given.users, given.dims, K, given.device, given.repeats)


if __name__ == "__main__":
    main()
