"""Full-catalog ranking in blocks against the dense way: seconds, peak memory and their ratio, in one run.

    python benchmarks/ranking.py [--device cuda] [--large 100000]

The large case (n users x n items) would need n^2 scores at once the naive way (40 GB at 100,000); there the naive
version is timed on the first 500 users and scaled up, and the line says so.
"""

import argparse
import resource
import time

import numpy as np
import torch

from recveil.core.types import Dataset
from recveil.metrics import ranking
from recveil.models.scoring import top_k


def world(n_users: int, n_items: int, per_user: int, d: int) -> tuple:
    """Draw random vectors, histories and one held-out item each."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((n, d), dtype=np.float32) for n in (n_users, n_items))
    user = np.repeat(np.arange(n_users), per_user)
    data = Dataset("made up", user, rng.integers(n_items, size=len(user)), None, np.arange(n_users), np.arange(n_items))
    held = Dataset("held", np.arange(n_users), rng.integers(n_items, size=n_users), None, data.user_ids, data.item_ids)
    return x, y, data, held


def naive(x: np.ndarray, y: np.ndarray, seen: object, held: Dataset, users: int) -> float:
    """Compute NDCG@10 with all scores at once, sorted in full, as most scripts do."""
    scores = x[:users] @ y.T
    row = np.repeat(np.arange(users), np.diff(seen.indptr)[:users])
    target = scores[np.arange(users), held.item[:users]]
    scores[row, seen.indices[: len(row)]] = -np.inf
    scores[np.arange(users), held.item[:users]] = target
    order = np.argsort(-scores, axis=1)
    place = np.argmax(order == held.item[:users, None], axis=1)
    return float(np.where(place < 10, 1 / np.log2(place + 2.0), 0.0).mean())


def measure(n_users: int, n_items: int, naive_users: int, device: str) -> None:
    """Print one line of the table."""
    x, y, data, held = world(n_users, n_items, 50, 32)
    seen = ranking.collect_seen_items(data)
    score = ranking.make_dot_scorer(x, y, device=device)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    ours = ranking.ndcg(ranking.rank(score, held, seen, block=2**26 if device != "cpu" else None), 10)
    ranked = time.perf_counter() - start
    start = time.perf_counter()
    top_k(score, np.arange(n_users), 100, seen)
    listed = time.perf_counter() - start
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 2**20
    start = time.perf_counter()
    theirs = naive(x, y, seen, held, naive_users)
    slow = (time.perf_counter() - start) * n_users / naive_users
    assert abs(theirs - ours[:naive_users].mean()) < 1e-6
    note = "" if naive_users == n_users else f" (timed on {naive_users} users)"
    print(
        f"| {n_users:,} x {n_items:,} | {ranked:.2f} s | {listed:.2f} s | {memory:.2f} GiB | {slow:.2f} s{note} "
        f"| {slow / ranked:.1f} |",
        flush=True,
    )


def main() -> None:
    """Both sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--large", type=int, default=100_000)
    given = parser.parse_args()
    print("| users x items | HR/NDCG | top-100 lists | added memory | naive HR/NDCG | naive / ours |")
    print("| --- | --- | --- | --- | --- | --- |")
    measure(6_040, 3_706, 6_040, given.device)
    measure(given.large, given.large, 500, given.device)


if __name__ == "__main__":
    main()
