from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.types import Dataset, Split
from recveil.data.splits import leave_one_out
from recveil.metrics.ranking import evaluate
from recveil.models import MODELS
from recveil.models.construction import find_tuned_options, make_model


@pytest.mark.parametrize("name", list(MODELS))
def test_tuned_options_belong_to_the_model_and_given_options_override_them(name: str) -> None:
    tuned = find_tuned_options(name, "ml-1m")
    model = make_model(name, "ml-1m", {}, "cpu")
    assert {key: getattr(model, key) for key in tuned} == tuned
    assert make_model(name, "elsewhere", {}, None) == MODELS.make(name)
    for option in tuned:
        other = 2 * tuned[option] if isinstance(tuned[option], int) else tuned[option] / 2
        assert getattr(make_model(name, "ml-1m", {option: other}, None), option) == other


def test_an_unknown_model_or_option_is_an_error_with_the_nearest_match() -> None:
    with pytest.raises(UsageError, match="'bprm'.*'bprmf'"):
        make_model("bprm", "ml-1m", {}, None)
    with pytest.raises(UsageError, match="'epoch'.*'epochs'"):
        make_model("bprmf", "ml-1m", {"epoch": 3}, None)


@pytest.fixture(scope="module")
def ml_1m(shared_data: Path) -> Split:
    """MovieLens 1M: items with at least five ratings, leave-one-out by time."""
    path = shared_data / "ml-1m" / "interactions.parquet"
    if not path.is_file():
        pytest.skip(f"ML-1M is not available: {path} is missing")
    table = pq.read_table(path, columns=["user_id", "item_id", "timestamp"])
    user, item, time = (table[name].to_numpy().astype(np.int64) for name in table.column_names)
    often = np.bincount(item)[item] >= 5
    users, user = np.unique(user[often], return_inverse=True)
    items, item = np.unique(item[often], return_inverse=True)
    return leave_one_out(Dataset("ml-1m", user, item, time[often], users, items))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "ndcg", "hits"), [("bprmf", 0.048, 0.095), ("als", 0.048, 0.095)])
def test_the_options_tuned_for_ml_1m_keep_their_quality(ml_1m: Split, model: str, ndcg: float, hits: float) -> None:
    made = make_model(model, "ml-1m", {}, None).fit(ml_1m, rng=make_generator(0, "quality"))
    found = evaluate(made.score, ml_1m, ks=(10,))
    # One seed: the aim is a mean of three, so it need only lie within the interval.
    assert found["ndcg@10"].high > ndcg
    assert found["hit_rate@10"].high > hits
    assert found["ndcg@10"].value > 0.9 * ndcg
