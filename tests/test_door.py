"""The lines of DESIGN 5, run as they stand, for NumPy, pandas, polars and Arrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import recveil as rv

pytestmark = pytest.mark.usefixtures("quick_self_check")

N = 240
CODES = np.arange(N) % 2
X = (np.random.default_rng(0).standard_normal((N, 4)) + 2.0 * CODES[:, None]).astype(np.float32)
X_LATER = (np.random.default_rng(1).standard_normal((20, 4)) + 1.0).astype(np.float32)
GENDER = np.array(["F", "M"])[CODES]
QUICK = {"panel": "logistic", "folds": 3, "repeats": 1}

FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}
ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda x: x,
    "pandas": lambda x: pd.DataFrame(x, columns=[f"f{j}" for j in range(x.shape[1])]),
    "polars": lambda x: pl.DataFrame(x, schema=[f"f{j}" for j in range(x.shape[1])]),
    "arrow": lambda x: pa.table({f"f{j}": column for j, column in enumerate(x.T)}),
}


@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_is_audited_by_the_name_of_its_target(library: str, tmp_path: Path) -> None:
    df = FRAMES[library]({"user_id": np.arange(N), "embedding": X.tolist(), "gender": GENDER.tolist()})
    result = rv.audit(df, target="gender", **QUICK)
    assert result.verdict == "leak"
    assert result.verdict is rv.Verdict.LEAK
    assert isinstance(result.headline.advantage, rv.Estimate)
    assert result.headline.advantage.low > 0.3
    assert rv.AuditResult.model_validate_json(result.to_json()) == result
    if library == "pandas":  # one page is enough
        assert result._repr_html_().startswith("<")
        result.write_html(tmp_path / "new" / "report.html")
        assert "gender" in (tmp_path / "new" / "report.html").read_text()
    safe = rv.cloak(df, target="gender", method="gaussian", **QUICK)
    assert isinstance(safe, rv.CloakResult)
    assert safe.verdict != "leak"
    assert type(safe.table) is type(df)


def test_arrays_are_audited_with_their_labels() -> None:
    for y in (CODES, GENDER, GENDER.tolist(), pd.Series(GENDER), pl.Series(GENDER.tolist())):
        assert rv.audit(X, y, **QUICK).verdict == "leak"
    noise = np.random.default_rng(2).standard_normal((N, 4))
    assert rv.audit(noise, CODES, **QUICK).verdict != "leak"


@pytest.mark.parametrize("library", ARRAYS)
def test_a_cloak_is_a_scikit_learn_transformer_that_is_saved_and_loaded(library: str, tmp_path: Path) -> None:
    make = ARRAYS[library]
    cloak = rv.Sliced(rounds=10, coordinates="columns", device="cpu").fit(make(X), GENDER)
    x_safe, x_new = cloak.transform(make(X), GENDER), cloak.transform(make(X_LATER))
    assert rv.audit(np.asarray(x_safe), CODES, **QUICK).headline.advantage.value < 0.3
    assert np.asarray(x_new).shape == X_LATER.shape
    cloak.save(tmp_path / "map.safetensors")
    loaded = rv.load_map(tmp_path / "map.safetensors")
    np.testing.assert_allclose(loaded.transform(make(X_LATER)), x_new, atol=1e-6)
    later = make(X_LATER), GENDER[: len(X_LATER)]
    np.testing.assert_allclose(loaded.transform(*later), cloak.transform(*later), atol=1e-6)
    np.testing.assert_array_equal(clone(cloak).fit_transform(make(X), GENDER), x_safe)
    assert clone(cloak).get_params() == cloak.get_params()
    pipeline = make_pipeline(StandardScaler(), rv.Gaussian(device="cpu"))
    assert np.asarray(pipeline.fit_transform(make(X), GENDER)).shape == X.shape
    if library in ("pandas", "polars"):  # those that scikit-learn gives back
        framed = clone(cloak).set_output(transform=library).fit(make(X), GENDER).transform(make(X_LATER))
        assert list(framed.columns) == ["f0", "f1", "f2", "f3"]


@pytest.mark.thorough
def test_members_are_attacked_models_trained_and_data_sets_loaded_by_name(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECVEIL_DATA", str(shared_data))
    tiny = {"epochs": 1, "embedding_size": 4}
    members = rv.membership("demo", attacks=["rules"], options=tiny, k=20, device="cpu")
    assert isinstance(members, rv.MembershipResult)
    assert isinstance(members.verdict, rv.Verdict)
    data = rv.load_dataset("ml-100k")
    assert isinstance(data, rv.Dataset)
    assert data.n_users == 943
    trained = rv.train(data, options=tiny, k=5, device="cpu")
    assert isinstance(trained, rv.TrainResult)
    assert 0 < trained.utility.after["ndcg@10"].value < 1


BAD_FRAMES = {
    "no such column": ({}, "gendr", "gendr"),
    "duplicate ids": ({"user_id": [7] * N}, "gender", "more than once"),
    "vectors of unequal lengths": ({"embedding": [[1.0] * (2 + i % 2) for i in range(N)]}, "gender", "length"),
}


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_bad_frame_is_one_clear_value_error(library: str, name: str) -> None:
    changes, target, word = BAD_FRAMES[name]
    columns = {"user_id": np.arange(N), "embedding": X.tolist(), "gender": GENDER.tolist(), **changes}
    for call in (rv.audit, rv.cloak):
        with pytest.raises(ValueError, match=word) as error:
            call(FRAMES[library](columns), target=target)
        assert isinstance(error.value, rv.RecveilError)
