"""A small module of torch with users and items, for models of all libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

import recveil as rv

N, M, D = 160, 30, 4
QUICK: dict[str, Any] = {"panel": "logistic", "folds": 3, "repeats": 1, "max_repeats": 1}
RNG = np.random.default_rng(0)
CODES = np.arange(N) % 2
USER_IDS = [f"u{i}" for i in RNG.permutation(N)]
ITEM_IDS = [f"i{i}" for i in RNG.permutation(M)]
USERS = pd.DataFrame({"user_id": USER_IDS, "gender": np.array(["F", "M"])[CODES]}).sample(frac=1, random_state=0)
PAIRS = pd.DataFrame(
    {"user_id": np.repeat(USER_IDS, 6), "item_id": np.concatenate([RNG.choice(ITEM_IDS, 6, False) for _ in range(N)])}
)


class Recommender(torch.nn.Module):
    """Tables of users and items with biases, as people write them."""

    def __init__(self) -> None:
        super().__init__()
        self.user_table = torch.nn.Embedding(N, D)
        self.item_table = torch.nn.Embedding(M, D)
        self.item_bias = torch.nn.Parameter(torch.linspace(0, 1, M))
        with torch.no_grad():
            self.user_table.weight[:, 0] += torch.as_tensor(3.0 * CODES)


MODEL = Recommender()
TABLES = {"users": "user_table", "items": "item_table.weight", "item_bias": "item_bias"}


def read_module(**options: Any) -> rv.ModelRelease:
    return rv.from_model(MODEL, **{"user_ids": USER_IDS, "item_ids": ITEM_IDS, **TABLES, **options})
