"""What is said of poor input to `recveil cloak`: in the document, on the page, and in the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from recveil.cli.app import app
from recveil.core.errors import DataError
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.data.io.release_files import write_vectors
from recveil.workflows.notes import notes_on, small_classes_as_one

METHODS = ("gaussian", "leace", "sliced")


def cloak(folder: Path, x: np.ndarray, labels: list[str | None], *args: str) -> Result:
    ids = np.arange(len(x))
    write_vectors(folder / "E.parquet", "user_id", ids, x.astype(np.float32))
    pq.write_table(pa.table({"user_id": ids, "job": pa.array(labels, pa.string())}), folder / "A.parquet")
    files = ["--embeddings", str(folder / "E.parquet"), "--attributes", str(folder / "A.parquet")]
    given = [*files, "--target", "job", "--out", str(folder / "C.parquet"), "--device", "cpu", *args]
    return CliRunner().invoke(app, ["cloak", *given])


def table(n: int = 90, d: int = 3) -> tuple[np.ndarray, list[str | None]]:
    rng = np.random.default_rng(0)
    labels = ["cook", "nurse", "baker"] * (n // 3)
    return rng.standard_normal((n, d)) + np.arange(n)[:, None] % 3, list(labels)


def moved(folder: Path) -> np.ndarray:
    out = pq.read_table(folder / "C.parquet").drop_columns(["user_id"])
    columns = [np.stack(c.to_pylist()) for c in out.columns]
    found = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    assert np.isfinite(found).all()
    return found


@pytest.mark.parametrize("method", METHODS)
def test_good_input_needs_no_remark(tmp_path: Path, method: str) -> None:
    done = cloak(tmp_path, *table(), "--method", method)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("method", METHODS)
def test_a_constant_column_stays_and_is_named(tmp_path: Path, method: str) -> None:
    x, labels = table()
    x[:, 1] = 7
    done = cloak(tmp_path, x, labels, "--method", method)
    assert done.exit_code == 0, done.stderr
    assert "1 of 3 columns are the same for all users" in done.stderr
    np.testing.assert_allclose(moved(tmp_path)[:, 1], 7, atol=1e-5)


@pytest.mark.parametrize("method", ["gaussian", "sliced"])
def test_fewer_users_than_dimensions_are_regularized_and_that_is_said(method: str, tmp_path: Path) -> None:
    x, labels = table(30, 40)
    done = cloak(tmp_path, x, labels, "--method", method)
    assert done.exit_code == 0, done.stderr
    assert "job: 3 of 3 classes have no more users than the vectors have dimensions (40)" in done.stderr
    assert 0.1 < np.abs(moved(tmp_path) - x).max() < 10


def test_a_class_of_one_goes_into_the_rest_in_the_document_on_the_page_and_in_the_terminal(tmp_path: Path) -> None:
    x, labels = table()
    labels[:2] = ["pilot", "spy"]
    said = "job: a class of one user cannot be protected alone. 'pilot', 'spy' were made one class, 'rest'"
    done = cloak(tmp_path, x, labels, "--method", "gaussian")
    assert done.exit_code == 0, done.stderr
    assert said in done.stderr
    page = tmp_path / "r.html"
    quick = ("--method", "gaussian", "--folds", "2", "--seeds", "1", "--json", "--report", str(page))
    document = json.loads(cloak(tmp_path, x, labels, *quick).stdout)
    assert document["defense"]["notes"][0].startswith(said)
    assert "'rest' was left out" in " ".join(document["warnings"])  # two users are too few to be audited
    assert "were made one class" in page.read_text()


def test_a_class_of_one_beside_one_other_class_cannot_be_hidden(tmp_path: Path) -> None:
    x, _ = table()
    done = cloak(tmp_path, x, ["cook"] * 89 + ["spy"])
    assert done.exit_code == 3
    assert "The class 'spy' of 'job' has 1 user, and 2 are needed" in done.stderr
    assert not (tmp_path / "C.parquet").exists()


def test_users_of_whom_nothing_is_known(tmp_path: Path) -> None:
    x, labels = table()
    done = cloak(tmp_path, x, [None] * len(x))
    assert done.exit_code == 3
    assert "No user disclosed 'job'" in done.stderr
    labels[:5] = [None] * 5
    told = {"gaussian": "label-free map", "leace": "same map as all others", "noise": "got noise", "u2u": "stay where"}
    for method, fate in told.items():
        done = cloak(tmp_path, x, labels, "--method", method)
        assert done.exit_code == 0, done.stderr
        assert "5 users with unknown job" in done.stderr
        assert fate in done.stderr
        stayed = np.array_equal(moved(tmp_path)[:5], x[:5].astype(np.float32))
        assert stayed == (method == "u2u")


@pytest.mark.parametrize("method", ["gaussian", "leace", "sliced", "noise", "attrcloak", "attrcloak-df", "u2u", "d2d"])
@pytest.mark.parametrize("strength", ["1.5", "-0.1", "nan"])
def test_a_strength_outside_is_refused(tmp_path: Path, method: str, strength: str) -> None:
    done = cloak(tmp_path, *table(), "--method", method, "--strength", strength)
    assert done.exit_code == 2, done.stderr
    assert "strength must lie between 0" in done.stderr
    assert not (tmp_path / "C.parquet").exists()


def test_what_is_no_number_is_refused(tmp_path: Path) -> None:
    x, labels = table()
    x[3, 1] = np.nan
    done = cloak(tmp_path, x, labels)
    assert done.exit_code == 3
    assert "NaN" in done.stderr


def test_items_of_another_dimension_are_refused(tmp_path: Path) -> None:
    x, labels = table()
    write_vectors(tmp_path / "I.parquet", "item_id", np.arange(4), np.ones((4, 5), dtype=np.float32))
    history = {"user_id": np.repeat(np.arange(90), 4), "item_id": np.tile(np.arange(4), 90)}
    pq.write_table(pa.table(history), tmp_path / "H.parquet")
    more = ("--item-embeddings", str(tmp_path / "I.parquet"), "--interactions", str(tmp_path / "H.parquet"))
    done = cloak(tmp_path, x, labels, *more)
    assert done.exit_code == 3
    assert "User vectors have 3 numbers and item vectors 5" in done.stderr


def test_the_rest_has_a_name_of_its_own() -> None:
    job = Attribute("job", np.array([0, 0, 1, 1, 2, UNDISCLOSED, 3]), ("cook", "rest", "spy", "pilot"))
    [merged], [note] = small_classes_as_one([job])
    assert merged.labels == ("cook", "rest", "rest of job")
    assert merged.codes.tolist() == [0, 0, 1, 1, 2, UNDISCLOSED, 2]
    assert "'spy', 'pilot' were made one class, 'rest of job', of 2 users" in note
    same, nothing = small_classes_as_one([merged])
    assert same == [merged]
    assert nothing == []
    with pytest.raises(DataError, match="same 'job'"):
        small_classes_as_one([Attribute("job", np.zeros(4, dtype=np.int64), ("cook",))])


def test_methods_without_covariances_have_none_to_regularize() -> None:
    job = Attribute("job", np.arange(10) % 2, ("cook", "spy"))
    x = np.random.default_rng(0).standard_normal((10, 20))
    for method in ("gaussian", "sliced", "attrcloak", "attrcloak-df", "attrcloak-dd"):
        assert len(notes_on(x, [job], method)) == 1
    for method in ("noise", "leace", "u2u", "d2d"):
        assert notes_on(x, [job], method) == []
