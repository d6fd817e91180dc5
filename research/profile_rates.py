"""Choose the learning rates of RAID's profile: the paper tuned by grid search and does not state what came of it.

Its SGD with 1e-4 hardly leaves the start. The smallest rate within 2 % of the best NDCG@10 of the validation items of
ML-1M is taken, before any user is attacked and without the test items; `research/run_on_device.py --rates` does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from importlib import import_module
from pathlib import Path

from recveil.core.device import deterministic_algorithms
from recveil.core.random import make_generator
from recveil.metrics import ranking
from recveil.models.construction import make_model
from recveil.studies.attribute_cells import load_split
from recveil.studies.model_cache import cache_model

PROFILE = "raid2025"
DATA = "ml-1m"
K = 10
NEAR_BEST = 0.98
GRID = {"lightgcn": (0.01, 0.03), "ncf": (0.003, 0.01), "dmf": (0.003, 0.01)}


def rank_validation_items(cache: Path, name: str, rate: float) -> float:
    """Train a model of the profile with this learning rate; return NDCG@10 of its validation items."""
    import torch

    torch.set_num_threads(1)
    split = load_split(DATA)
    model = cache_model(make_model(name, DATA, {"learning_rate": rate}, None, profile=PROFILE), name, cache)
    with deterministic_algorithms():
        model.fit(split, rng=make_generator(0, "train"))
    ranks = ranking.rank(model.score, split.valid, ranking.collect_seen_items(split.train))
    return float(ranking.ndcg(ranks, K).mean())


def submit_trainings(pool: Executor, cache: Path) -> dict[tuple[str, float], Future[float]]:
    """Begin to train all models with all rates."""
    pairs = [(name, rate) for name, rates in GRID.items() for rate in rates]
    return {pair: pool.submit(rank_validation_items, cache, *pair) for pair in pairs}


def choose_rates(trainings: Mapping[tuple[str, float], Future[float]]) -> dict[str, float]:
    """Return the best rate of each model."""
    scores = {pair: training.result() for pair, training in trainings.items()}
    for (name, rate), score in scores.items():
        print(f"{name}, learning rate {rate}: NDCG@{K} of the validation items {score:.4f}", flush=True)
    best = {name: max(scores[name, rate] for rate in rates) for name, rates in GRID.items()}
    return {name: min(r for r in rates if scores[name, r] >= NEAR_BEST * best[name]) for name, rates in GRID.items()}


def apply_rates(rates: Mapping[str, float]) -> None:
    """Take these learning rates in this process; those chosen last stand in the profiles of the models."""
    for name, rate in rates.items():
        import_module(f"recveil.models.{name}").PROFILES[PROFILE]["learning_rate"] = rate
