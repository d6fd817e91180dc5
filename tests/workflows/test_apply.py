"""Applying a saved map: labels known or not, drift, and inputs that do not belong to the map."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.result_parts import InputSummary
from recveil.core.types import Attribute
from recveil.defenses.embeddings.map_files import FORMAT, SavedMap
from recveil.workflows.apply import apply_files
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.inputs import InputFiles
from recveil.workflows.map_saving import save_fitted_map
from recveil.workflows.saved_maps import ApplyRequest

LABELS = np.array(["F", "M"])


def draw_users(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=n)
    return (rng.standard_normal((n, 4)) + 2 * np.eye(2, 4)[codes]).astype(np.float32), codes


def save_map(path: Path, method: str) -> None:
    x, codes = draw_users(400, 0)
    table = ClearTable(InputSummary(name="E", n_users=400, d=4), x, [Attribute("gender", codes, ("F", "M"))])
    protocol = AuditProtocol(device="cpu")
    result = cloak_table(table, ChosenDefense(method), protocol, audit=False)[1]
    save_fitted_map(path, table, result, protocol)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Maps of two methods, and 300 later users with their attributes."""
    folder = tmp_path_factory.mktemp("apply")
    for method in ("gaussian", "labelfree"):
        save_map(folder / f"{method}.map", method)
    x, codes = draw_users(300, 1)
    ids = [f"u{n}" for n in range(300)]
    gender = LABELS[codes].tolist()
    users = {"user_id": ids, "gender": gender, **{f"emb_{j}": x[:, j] for j in range(4)}}
    pq.write_table(pa.table(users), folder / "N.parquet")
    pq.write_table(pa.table({"user_id": ids, "gender": [None, *gender[1:]]}), folder / "A.parquet")
    return folder


def read_files(folder: Path, embeddings: str = "N.parquet", attributes: str = "") -> InputFiles:
    return InputFiles(folder / embeddings, folder / attributes if attributes else None)


def test_known_classes_take_their_map_and_the_others_are_counted(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "C.parquet"
    done = apply_files(folder / "gaussian.map", read_files(folder, attributes="A.parquet"), ApplyRequest(out))
    assert done.unprotected == {"gender": 1}
    assert any("1 of 300 users" in note and "unprotected" in note for note in done.notes)
    before, after = pq.read_table(folder / "N.parquet"), pq.read_table(out)
    assert after.column_names == ["user_id", "emb_0", "emb_1", "emb_2", "emb_3"]
    assert after["user_id"].equals(before["user_id"])
    is_woman = np.array(before["gender"].to_pylist()) == "F"
    x = np.column_stack([after[f"emb_{j}"] for j in range(4)])
    assert np.abs(x[is_woman].mean(0) - x[~is_woman].mean(0)).max() < 0.4  # 2 before


def test_a_map_that_needs_no_label_protects_everybody(folder: Path, tmp_path: Path) -> None:
    done = apply_files(folder / "labelfree.map", read_files(folder), ApplyRequest(tmp_path / "C.parquet"))
    assert done.unprotected == {"gender": 0}
    assert not any("WARNING" in note for note in done.notes if "does not hold" not in note)


def test_other_users_are_refused_unless_drift_is_allowed(folder: Path, tmp_path: Path) -> None:
    table = pq.read_table(folder / "N.parquet")
    moved = table.set_column(2, "emb_0", pa.array(np.asarray(table["emb_0"]) + 5))
    pq.write_table(moved, tmp_path / "far.parquet")
    files = InputFiles(tmp_path / "far.parquet", None)
    with pytest.raises(DataError, match="not like those"):
        apply_files(folder / "labelfree.map", files, ApplyRequest(tmp_path / "C.parquet"))
    assert not (tmp_path / "C.parquet").exists()
    done = apply_files(folder / "labelfree.map", files, ApplyRequest(tmp_path / "C.parquet", allow_drift=True))
    assert any(note.startswith("WARNING: These users") for note in done.notes)


def test_a_class_that_the_map_never_saw_is_refused(folder: Path, tmp_path: Path) -> None:
    ids = pq.read_table(folder / "N.parquet")["user_id"]
    pq.write_table(pa.table({"user_id": ids, "gender": ["X"] * 300}), tmp_path / "A.parquet")
    files = replace(read_files(folder), attributes=tmp_path / "A.parquet")
    with pytest.raises(DataError, match="never saw the class 'X'.*F, M"):
        apply_files(folder / "gaussian.map", files, ApplyRequest(tmp_path / "C.parquet"))


def test_maps_that_cannot_be_used_are_refused_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    request, files = ApplyRequest(tmp_path / "C.parquet"), read_files(folder)
    whole = (folder / "gaussian.map").read_bytes()
    (tmp_path / "cut.map").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "foreign.map").write_bytes(b"PK\x03\x04 something else")
    (tmp_path / "other.map").write_bytes(whole.replace(FORMAT.encode(), b"recveil map 9"))
    replace(SavedMap.read_file(folder / "gaussian.map"), origin=None, drift=None).write_file(tmp_path / "bare.map")
    reasons = {"cut": "cannot be read", "foreign": "cannot be read", "other": "another version", "bare": "comes from"}
    for name, reason in reasons.items():
        with pytest.raises(DataError, match=reason):
            apply_files(tmp_path / f"{name}.map", files, request)


def test_tables_that_do_not_fit_the_map_are_refused(folder: Path, tmp_path: Path) -> None:
    pq.write_table(pq.read_table(folder / "N.parquet").drop_columns(["emb_3"]), tmp_path / "narrow.parquet")
    request = ApplyRequest(tmp_path / "C.parquet")
    with pytest.raises(DataError, match="4 dimensions.*have 3"):
        apply_files(folder / "gaussian.map", InputFiles(tmp_path / "narrow.parquet", None), request)
    with pytest.raises(UsageError, match="`map`"):
        apply_files(folder / "gaussian.map", read_files(folder), ApplyRequest(folder / "gaussian.map"))


def test_users_keep_what_was_released(folder: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    table = pq.read_table(folder / "N.parquet")
    changed = table.slice(100)  # users 0 to 99 have left; the others get released vectors of their own
    released = changed.slice(0, 150).set_column(2, "emb_0", pa.array(np.full(150, 7.0, np.float32)))
    pq.write_table(changed, folder / "later.parquet")
    pq.write_table(released, first)
    request = ApplyRequest(second, released=first, device="cpu")
    done = apply_files(folder / "labelfree.map", read_files(folder, "later.parquet"), request)
    assert any("150 of 200 users keep the vectors of first.parquet" in note for note in done.notes)
    out = pq.read_table(second)["emb_0"].to_numpy()
    assert (out[:150] == 7).all()
    assert not (out[150:] == 7).any()
    pq.write_table(pa.table({"user_id": ["x"], **{f"emb_{j}": [0.0] for j in range(4)}}), first)
    with pytest.raises(DataError, match="No user is both in"):
        apply_files(folder / "labelfree.map", read_files(folder, "later.parquet"), request)
    pq.write_table(pa.table({"user_id": ["u150"], "emb_0": [0.0], "emb_1": [0.0]}), first)
    with pytest.raises(DataError, match="have 2 numbers and the new ones 4"):
        apply_files(folder / "labelfree.map", read_files(folder, "later.parquet"), request)
