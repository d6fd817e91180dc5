"""Tables that are not as they should be: read as in memory where that is possible, else refused with one sentence."""

from __future__ import annotations

import decimal
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recveil.cli.app import app
from recveil.core.random import make_generator
from recveil.defenses.embeddings.gaussian import Gaussian

N, D = 240, 3
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 2, N)
X = 20 * RNG.standard_normal((N, D)) + 15 * CODES[:, None]
GENDER = pa.array(["FM"[code] for code in CODES])


@pytest.fixture(autouse=True)
def no_self_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save the seconds of the self-check, which has its own tests: here it is about what is read and written."""
    monkeypatch.setattr("recveil.workflows.cloak_large._examine_sample", lambda result, *_: result)


def lists(x: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1])


def table(**columns: Any) -> pa.Table:
    """A sound table, with some columns in place of its own; None leaves one out."""
    sound = {"user_id": pa.array(np.arange(N)), "embedding": lists(X.astype(np.float32)), "gender": GENDER}
    return pa.table({name: column for name, column in (sound | columns).items() if column is not None})


def cloak(folder: Path, rows: pa.Table, *more: str, target: str = "gender") -> Any:
    """Run the command as people do; nothing but one sentence may come of an error."""
    pq.write_table(rows, folder / "in.parquet", row_group_size=100)
    paths = ["--embeddings", str(folder / "in.parquet"), "--out", str(folder / "out.parquet")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = CliRunner().invoke(app, ["cloak", *paths, "--stream", "--target", target, "--method", "gaussian", *more])
    if done.exit_code:
        assert done.exit_code in (2, 3), done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert [path.name for path in folder.iterdir()] == ["in.parquet"]  # no output, and nothing hidden
    return done


def numbers(path: Path) -> np.ndarray:
    rows = pq.read_table(path)
    if "embedding" in rows.column_names:
        return np.array(rows.column("embedding").to_pylist(), np.float64)
    return np.stack([np.array(rows.column(f"emb_{j}").to_pylist(), np.float64) for j in range(D)], axis=1)


def numbered(x: np.ndarray, *types: str) -> dict[str, Any]:
    return {f"emb_{j}": pa.array(x[:, j].astype(types[j % len(types)])) for j in range(D)} | {"embedding": None}


WHOLE = np.round(np.clip(np.abs(X), 0, 100))
OTHER_NUMBERS = {
    **{kind: {"embedding": lists(WHOLE.astype(kind))} for kind in ("int8", "int16", "int64", "uint8", "uint64")},
    "16-bit floats": {"embedding": lists(WHOLE.astype(np.float16))},
    "lists": {"embedding": pa.array(WHOLE.astype(int).tolist(), pa.list_(pa.int32()))},
    "large lists": {"embedding": pa.array(WHOLE.astype(int).tolist(), pa.large_list(pa.uint16()))},
    "decimals": {"embedding": pa.array([[decimal.Decimal(int(v)) for v in row] for row in WHOLE])},
    "numbered": numbered(WHOLE, "int32"),
    "mixed": numbered(WHOLE, "int8", "float64", "float32"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("columns", OTHER_NUMBERS.values(), ids=OTHER_NUMBERS)
def test_other_numbers_are_read_as_floats_and_written_as_floats(tmp_path: Path, columns: dict[str, Any]) -> None:
    done = cloak(tmp_path, table(**columns))
    assert done.exit_code == 0, done.stderr
    assert "written as 32-bit floats" in done.stderr
    wanted = Gaussian(device="cpu")(WHOLE.astype(np.float32), 1 - CODES, rng=make_generator(0, "cloak"))
    np.testing.assert_allclose(numbers(tmp_path / "out.parquet"), wanted, atol=1e-3)
    kinds = {str(field.type) for field in pq.read_schema(tmp_path / "out.parquet") if "emb" in field.name}
    assert all("float" in kind or "double" in kind for kind in kinds)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_floats_keep_their_type(tmp_path: Path, kind: str) -> None:
    done = cloak(tmp_path, table(embedding=lists(X.astype(kind))))
    assert (done.exit_code, "32-bit" in done.stderr) == (0, False)
    types = [pq.read_schema(tmp_path / name).field("embedding").type for name in ("in.parquet", "out.parquet")]
    assert types[0] == types[1]


NO_VECTORS = {
    "truth values": {"embedding": lists(X > 0)},
    "lists of truth values": {"embedding": pa.array((X > 0).tolist())},
    "numbered truth values": numbered(X > 0, "bool"),
    "text": {"embedding": pa.array([str(row.tolist()) for row in X])},
    "lists of text": {"embedding": pa.array([[str(v) for v in row] for row in X])},
    "numbered text": {f"emb_{j}": pa.array([str(v) for v in X[:, j]]) for j in range(D)} | {"embedding": None},
    "numbers": {"embedding": pa.array(X[:, 0])},
    "lists of lists": {"embedding": pa.array([[[1.0]]] * N)},
    "nothing": {"embedding": pa.nulls(N)},
    "no numbers": {"embedding": pa.array([[]] * N, pa.list_(pa.float32(), 0))},
    "names with leading zeros": {f"emb_0{j}": pa.array(X[:, j]) for j in range(D)} | {"embedding": None},
    "1e20": {"embedding": lists((X * 1e20).astype(np.float32))},
    "one of 1e30": {"embedding": lists(np.where(np.arange(N)[:, None] == 7, 1e30, X).astype(np.float32))},
    "1e300": {"embedding": lists(X * 1e300)},
    "1e-42": {"embedding": lists((X * 1e-42).astype(np.float32))},
}


@pytest.mark.parametrize("columns", NO_VECTORS.values(), ids=NO_VECTORS)
def test_vectors_that_cannot_be_computed_with_are_refused(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert cloak(tmp_path, table(**columns)).exit_code == 3


@pytest.mark.parametrize("scale", [1e-14, 1e13])
def test_small_and_large_vectors_within_the_limits_work(tmp_path: Path, scale: float) -> None:
    done = cloak(tmp_path, table(embedding=lists((X * scale).astype(np.float32))), "--method", "sliced")
    assert done.exit_code == 0, done.stderr
    assert np.isfinite(numbers(tmp_path / "out.parquet")).all()


@pytest.mark.parametrize("scale", [1e20, 1e-42])
def test_the_audit_refuses_the_same_scales(tmp_path: Path, scale: float) -> None:
    pq.write_table(table(embedding=lists((X * scale).astype(np.float32))), tmp_path / "in.parquet")
    shared = ["--embeddings", str(tmp_path / "in.parquet"), "--stream", "--target", "gender", "--panel", "logistic"]
    done = CliRunner().invoke(app, ["audit", *shared])
    assert (done.exit_code, len(done.stderr.splitlines())) == (3, 1)


CLASSES = {
    "views": GENDER.cast(pa.string_view()),
    "views of bytes": GENDER.cast(pa.binary()).cast(pa.binary_view()),
    "bytes": GENDER.cast(pa.binary()),
    "16-bit floats": pa.array(CODES.astype(np.float16)),
    "a dictionary": GENDER.dictionary_encode(),
    "truth values": pa.array(CODES > 0),
    "dates": pa.array(CODES, pa.int32()).cast(pa.date32()),
}


@pytest.mark.parametrize("column", CLASSES.values(), ids=CLASSES)
def test_classes_of_any_plain_type_are_counted(tmp_path: Path, column: pa.Array) -> None:
    done = cloak(tmp_path, table(gender=column), "--json", "--panel", "logistic", "--folds", "2", "--seeds", "1")
    assert done.exit_code == 0, done.stderr
    assert sorted(json.loads(done.stdout)["counts"]["gender"].values()) == sorted(np.bincount(CODES).tolist())


NO_CLASSES = {
    "lists": pa.array([[int(code)] for code in CODES]),
    "structs": pa.array([{"a": int(code)} for code in CODES]),
    "maps": pa.array([[("a", int(code))] for code in CODES], pa.map_(pa.string(), pa.int64())),
    "tensors": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int64(), [1]), lists(CODES[:, None])),
    "bytes that are no text": pa.array([[b"\xff", b"\xfe"][code] for code in CODES]),
    "nothing": pa.nulls(N),
    "one class": pa.array(["F"] * N),
}


@pytest.mark.parametrize("column", NO_CLASSES.values(), ids=NO_CLASSES)
def test_targets_without_classes_are_refused(tmp_path: Path, column: pa.Array) -> None:
    assert cloak(tmp_path, table(gender=column)).exit_code == 3


def test_ids_that_are_views_are_drawn_and_checked(tmp_path: Path) -> None:
    ids = [f"u{i}" for i in range(N)]
    options = ("--json", "--panel", "logistic", "--folds", "2", "--seeds", "1")
    done = cloak(tmp_path, table(user_id=pa.array(ids).cast(pa.string_view())), *options)
    assert done.exit_code == 0, done.stderr
    assert pq.read_table(tmp_path / "out.parquet").column("user_id").to_pylist() == ids
    (tmp_path / "out.parquet").unlink()
    done = cloak(tmp_path, table(user_id=pa.array([ids[0], *ids[:-1]]).cast(pa.string_view())))
    assert "'u0'" in done.stderr


def test_a_class_called_rest_is_another_class_than_the_merged_ones(tmp_path: Path) -> None:
    labels = np.where(CODES == 1, "rest", "F").astype(object)
    labels[[5, 9]] = "alone", "lonely"
    done = cloak(tmp_path, table(gender=pa.array(labels.tolist())))
    assert done.exit_code == 0, done.stderr
    assert "'rest of gender', of 2 users" in done.stderr


def test_a_target_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    options = ("--json", "--panel", "logistic", "--folds", "2", "--seeds", "1")
    done = cloak(tmp_path, table(), *options, target="gender,gender")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["defense"]["targets"] == ["gender"]


@pytest.mark.parametrize(("targets", "classes"), [(41, 2), (32, 3), (12, 2)])
def test_too_many_combinations_of_classes_are_refused_without_overflow(
    tmp_path: Path, targets: int, classes: int
) -> None:
    columns = {f"t{j}": pa.array(RNG.integers(0, classes, N)) for j in range(targets)}
    done = cloak(tmp_path, table(**columns), target=",".join(columns))
    assert done.exit_code == 2
    assert f"{targets} targets" in done.stderr


def test_a_target_may_be_called_like_a_count(tmp_path: Path) -> None:
    assert cloak(tmp_path, table(gender=None, count_all=GENDER), target="count_all").exit_code == 0


FACTS = {
    "no rows": (lambda rows: rows.slice(0, 0), 3),
    "a user twice": (lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]), 3),
    "lists": (lambda rows: rows.set_column(1, "gender", NO_CLASSES["lists"]), 3),
    "two columns of one name": (lambda rows: rows.append_column("gender", GENDER), 3),
    "views": (lambda rows: rows.set_column(1, "gender", CLASSES["views"]), 0),
}


@pytest.mark.parametrize(("change", "code"), FACTS.values(), ids=FACTS)
def test_attributes_in_another_file_are_checked_alike(tmp_path: Path, change: Any, code: int) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    pq.write_table(change(table(embedding=None)), facts / "facts.parquet")
    folder = tmp_path / "work"
    folder.mkdir()
    assert cloak(folder, table(gender=None), "--attributes", str(facts / "facts.parquet")).exit_code == code
