"""The functions behind the door: arguments, errors, and what they hand to the workflows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from recveil.core.errors import DataError, RecveilError, UsageError
from recveil.core.results import TrainResult
from recveil.data.synthetic import make_world
from recveil.integrations.python_api import audit, cloak, membership, train
from recveil.testing.worlds import make_planted_leak

pytestmark = pytest.mark.usefixtures("quick_self_check")

X, SECRET = make_planted_leak(200, 4, 2, 3.0, rng=np.random.default_rng(0))
QUICK = {"panel": "logistic", "folds": 3, "repeats": 1}
MODEL = {"epochs": 1, "embedding_size": 4}


@pytest.mark.thorough
def test_arrays_are_audited_under_the_rules_that_are_given() -> None:
    result = audit(X, SECRET.codes, target="secret", margin=0.1, seed=3, **QUICK)
    assert result.verdict == "leak"
    assert (result.protocol.margin, result.protocol.seed, result.protocol.panel) == (0.1, 3, "logistic")
    assert result.targets["secret"].leak_map is not None
    own = audit(X, SECRET, attacks={"mine": LogisticRegression()}, details=False, folds=3, repeats=1)
    assert list(own.targets["secret"].attacks) == ["mine"]
    assert own.targets["secret"].leak_map is None
    several = audit(X, {"secret": SECRET.codes, "height": X[:, 0]}, numeric=["height"], details=False, **QUICK)
    assert [target.kind for target in several.targets.values()] == ["classes", "number"]


def test_a_table_is_cloaked_and_audited_before_and_after() -> None:
    frame = pd.DataFrame({"embedding": X.tolist(), "secret": SECRET.codes, "height": X[:, 0]}, index=range(200, 0, -1))
    result = cloak(frame, target="secret", method="gaussian", options={"strength": 0.9}, **QUICK)
    assert (result.defense.name, result.defense.strength) == ("gaussian", 0.9)
    assert result.before["secret"].verdict == "leak"
    assert result.verdict != "leak"
    assert result.table.index.equals(frame.index)
    assert not np.allclose(np.stack(result.table["embedding"]), X)
    array = cloak(X, SECRET.codes, method="gaussian", options={"strength": 0.9}, **QUICK).table
    np.testing.assert_allclose(array, np.stack(result.table["embedding"]), atol=1e-6)


def test_models_are_trained_on_names_paths_datasets_and_frames(tmp_path: Path) -> None:
    data = make_world(
        n_users=60, n_items=40, n_interactions=900, leaks={"gender": 2.0}, rng=np.random.default_rng(0)
    ).dataset
    log = pa.table({"user_id": data.user, "item_id": data.item, "timestamp": data.time})
    gender = data.attributes["gender"]
    known = np.arange(60) % 5 > 0  # some users have no row, so they are undisclosed
    users = pd.DataFrame({"user_id": np.arange(60)[known], "gender": np.array(gender.labels)[gender.codes[known]]})
    results = [
        train(data, options=MODEL, k=5, device="cpu"),
        train(log, options=MODEL, k=5, device="cpu", out=tmp_path / "new" / "run"),
    ]
    assert results[0].utility == results[1].utility
    assert TrainResult.read_json(tmp_path / "new" / "run" / "metrics.json").utility == results[1].utility
    defended = train(
        log, users=users, options=MODEL, defense="gaussian", defense_options={"strength": 0.5}, target="gender", k=5
    )
    assert defended.config.defense.strength == 0.5
    assert defended.targets["gender"].n_undisclosed == 12
    log_path = tmp_path / "log.csv"
    pd.DataFrame(log.to_pydict()).to_csv(log_path, index=False)
    assert train(log_path, options=MODEL, k=5, device="cpu").utility == results[0].utility


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: audit(X, SECRET.codes, fold=3), "Did you mean 'folds'"),
        (lambda: audit(X, SECRET.codes, panel="fsat"), "Did you mean 'fast'"),
        (lambda: audit(X, SECRET.codes, device="gpu9", **QUICK), "gpu9"),
        (lambda: cloak(X, SECRET.codes, method="slced"), "Did you mean 'sliced'"),
        (lambda: cloak(X, SECRET.codes, options={"stength": 1}), "Did you mean 'strength'"),
        (lambda: train("demo", sed=3), "Did you mean 'seed'"),
        (lambda: train("demo", model="bprfm"), "Did you mean 'bprmf'"),
        (lambda: train("demo", defense="gaussian"), "`target`"),
        (lambda: membership("demo", atacks=["rules"]), "Did you mean 'attacks'"),
        (lambda: membership("demo", attacks=["dlmai"]), "Did you mean 'dlmia'"),
        (lambda: audit(X, SECRET.codes * 0), "target"),
    ],
)
def test_wrong_arguments_are_value_errors_that_speak_of_arguments(call: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        call()  # type: ignore[operator]
    assert isinstance(error.value, RecveilError)
    assert isinstance(error.value, UsageError | DataError)
    assert "--" not in str(error.value)
