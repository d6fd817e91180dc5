"""Training speed as ratios, in one run: ours against `implicit`, and against a plain PyTorch DataLoader loop.

    RECVEIL_DATA=... python benchmarks/training.py [--device cuda] [--skip implicit]

BPR-MF: seconds until the test NDCG@10 of implicit's BPR is reached, beside implicit's BPR and ALS on the same split.
NCF and LightGCN: training pairs per second against the same model in a plain loop (Dataset, DataLoader, one Adam step a
batch of 256, negatives drawn in Python), of which a few hundred batches are timed.
"""

import argparse
import time

import numpy as np
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from recveil.core.random import make_generator
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.metrics.ranking import collect_seen_items, make_dot_scorer, ndcg, rank
from recveil.models.bprmf import BPRMF
from recveil.models.lightgcn import LightGCN
from recveil.models.ncf import NCF

PLAIN_BATCH, PLAIN_STEPS = 256, 200


def quality(split: object, users: np.ndarray, items: np.ndarray) -> float:
    """Compute NDCG@10 of the test item, whole catalog."""
    return float(
        ndcg(rank(make_dot_scorer(users, items), split.test, collect_seen_items(split.train, split.valid)), 10).mean()
    )


def timed(work: object) -> tuple:
    """Return the result of the work and its seconds."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, time.perf_counter() - start


def against_implicit(split: object, device: str) -> None:
    """Print seconds to the quality that implicit's BPR ends with."""
    from implicit.als import AlternatingLeastSquares
    from implicit.bpr import BayesianPersonalizedRanking
    from scipy.sparse import csr_matrix

    matrix = csr_matrix(collect_seen_items(split.train).astype(np.float32))
    rivals = {
        "implicit BPR, d = 32, 100 iterations": BayesianPersonalizedRanking(factors=32, random_state=0),
        "implicit ALS, d = 32, 15 iterations": AlternatingLeastSquares(factors=32, random_state=0),
    }
    found = {}
    for name, model in rivals.items():
        _, seconds = timed(lambda model=model: model.fit(matrix, show_progress=False))
        found[name] = (quality(split, np.asarray(model.user_factors), np.asarray(model.item_factors)), seconds)
    goal = found["implicit BPR, d = 32, 100 iterations"][0]
    for epochs in (1, 2, 3, 4, 6, 8, 12, 16):
        ours = BPRMF(embedding_size=32, epochs=epochs, patience=99, device=device)
        _, seconds = timed(lambda ours=ours: ours.fit(split, rng=make_generator(0, "train")))
        reached = quality(split, ours.user_vectors_, ours.item_vectors_)
        if reached >= goal:
            break
    found[f"recveil BPR-MF, d = 32, {epochs} epochs"] = (reached, seconds)
    print("| model | NDCG@10 | seconds | against implicit BPR |\n| --- | --- | --- | --- |")
    base = found["implicit BPR, d = 32, 100 iterations"][1]
    for name, (value, seconds) in found.items():
        print(f"| {name} | {value:.4f} | {seconds:.1f} | {seconds / base:.2f} |", flush=True)


class Pairs(Dataset):
    """One training pair with sampled negatives, drawn in Python, as in most published code."""

    def __init__(self, split: object, negatives: int) -> None:
        self.user, self.item, self.negatives = split.train.user, split.train.item, negatives
        self.n_items = split.train.n_items
        self.seen = set((split.train.user * self.n_items + split.train.item).tolist())
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self.user)

    def __getitem__(self, index: int) -> tuple:
        u, others = int(self.user[index]), []
        while len(others) < self.negatives:
            j = int(self.rng.integers(self.n_items))
            if u * self.n_items + j not in self.seen:
                others.append(j)
        return u, int(self.item[index]), torch.tensor(others)


class PlainNCF(torch.nn.Module):
    """NeuMF as its paper has it."""

    def __init__(self, n_users: int, n_items: int, d: int = 32) -> None:
        super().__init__()
        self.tables = torch.nn.ModuleList([torch.nn.Embedding(n, d) for n in (n_users, n_items, n_users, n_items)])
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(2 * d, d), torch.nn.ReLU(), torch.nn.Linear(d, d // 2), torch.nn.ReLU()
        )
        self.out = torch.nn.Linear(d + d // 2, 1)

    def forward(self, u: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        a, b, c, e = (table(x) for table, x in zip(self.tables, (u, i, u, i), strict=True))
        return self.out(torch.cat([a * b, self.mlp(torch.cat([c, e], -1))], -1))[..., 0]


class PlainLightGCN(torch.nn.Module):
    """LightGCN that propagates for every batch."""

    def __init__(self, split: object, device: str, d: int = 32) -> None:
        super().__init__()
        n, m = split.train.n_users, split.train.n_items
        self.n, self.table = n, torch.nn.Parameter(torch.randn(n + m, d) * 0.1)
        u, i = (torch.as_tensor(a) for a in (split.train.user, split.train.item))
        row, column = torch.cat([u, i + n]), torch.cat([i + n, u])
        degree = torch.bincount(row, minlength=n + m).float().clamp(min=1)
        values = (degree[row] * degree[column]).rsqrt()
        self.graph = torch.sparse_coo_tensor(torch.stack([row, column]), values, (n + m, n + m)).coalesce().to(device)

    def forward(self, u: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        layers = [self.table]
        for _ in range(3):
            layers.append(torch.sparse.mm(self.graph, layers[-1]))
        final = torch.stack(layers).mean(0)
        return (final[u] * final[i + self.n]).sum(-1)


def plain_rate(model: torch.nn.Module, split: object, negatives: int, device: str) -> float:
    """Return the training pairs per second of the plain loop."""
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = iter(DataLoader(Pairs(split, negatives), batch_size=PLAIN_BATCH, shuffle=True))

    def steps(count: int) -> None:
        for _ in range(count):
            u, i, j = (t.to(device) for t in next(batches))
            up, down = model(u, i), model(u[:, None].expand_as(j), j)
            loss = functional.softplus(-up).mean() + functional.softplus(down).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    steps(5)
    _, seconds = timed(lambda: steps(PLAIN_STEPS if device != "cpu" else PLAIN_STEPS // 10))
    return PLAIN_BATCH * (PLAIN_STEPS if device != "cpu" else PLAIN_STEPS // 10) / seconds


def against_plain(split: object, device: str) -> None:
    """Print pairs per second, ours over the plain loop, and whole runs of the paper's length."""
    n, m = split.train.n_users, split.train.n_items
    cases = {
        "NCF": (PlainNCF(n, m), 4, lambda e: NCF(epochs=e, patience=e, device=device), 20),
        "LightGCN": (PlainLightGCN(split, device), 1, lambda e: LightGCN(epochs=e, patience=e, device=device), 200),
    }
    whole = device != "cpu"
    print("\n| model | plain pairs/s | our pairs/s | ratio | whole run |\n| --- | --- | --- | --- | --- |")
    for name, (plain, negatives, make, length) in cases.items():
        make(1).fit(split, rng=make_generator(0, "warm"))
        epochs = length if whole else 2
        _, seconds = timed(lambda make=make, epochs=epochs: make(epochs).fit(split, rng=make_generator(0, "train")))
        ours, theirs = len(split.train) * epochs / seconds, plain_rate(plain, split, negatives, device)
        run = f"{epochs} epochs in {seconds:.1f} s, validation included"
        print(f"| {name} | {theirs:,.0f} | {ours:,.0f} | {ours / theirs:.1f} | {run} |", flush=True)


def main() -> None:
    """Both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--skip", default="", help="implicit or plain")
    given = parser.parse_args()
    split = leave_one_out(load_dataset(given.data))
    if given.skip != "implicit":
        against_implicit(split, given.device)
    if given.skip != "plain":
        against_plain(split, given.device)


if __name__ == "__main__":
    main()
