from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from recveil.audits.catalog import MODELS
from recveil.core.random import generator
from recveil.core.types import Dataset, Split
from recveil.data.splits import leave_one_out
from recveil.metrics.ranking import evaluate
from recveil.models.tuned_settings import SETTINGS


@pytest.mark.parametrize(("data", "model"), [(data, model) for data, models in SETTINGS.items() for model in models])
def test_settings_are_hyper_parameters_of_their_model(data: str, model: str) -> None:
    made = MODELS[model](**SETTINGS[data][model])
    assert all(getattr(made, name) == value for name, value in SETTINGS[data][model].items())


@pytest.fixture(scope="module")
def ml_1m(shared_data: Path) -> Split:
    """MovieLens 1M: items with at least five ratings, leave-one-out by time."""
    path = shared_data / "ml-1m" / "interactions.parquet"
    if not path.is_file():
        pytest.skip(f"ML-1M not at hand: {path} is missing")
    table = pq.read_table(path, columns=["user_id", "item_id", "timestamp"])
    user, item, time = (table[name].to_numpy().astype(np.int64) for name in table.column_names)
    often = np.bincount(item)[item] >= 5
    users, user = np.unique(user[often], return_inverse=True)
    items, item = np.unique(item[often], return_inverse=True)
    return leave_one_out(Dataset("ml-1m", user, item, time[often], users, items))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "ndcg", "hits"), [("bprmf", 0.048, 0.095), ("als", 0.048, 0.095)])
def test_the_settings_for_ml_1m_keep_their_quality(ml_1m: Split, model: str, ndcg: float, hits: float) -> None:
    made = MODELS[model](**SETTINGS["ml-1m"][model]).fit(ml_1m, rng=generator(0, "quality"))
    found = evaluate(made.score, ml_1m, ks=(10,))
    # One seed: the aim is a mean of three, so it need only lie within the interval.
    assert found["ndcg@10"].high > ndcg
    assert found["hr@10"].high > hits
    assert found["ndcg@10"].value > 0.9 * ndcg
