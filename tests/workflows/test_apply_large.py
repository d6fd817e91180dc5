"""Applying a saved map to tables that are never in memory: the numbers of the flow in memory, and the same refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.result_parts import InputSummary
from recveil.core.types import Attribute
from recveil.workflows.apply import apply_files
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.inputs import InputFiles
from recveil.workflows.map_saving import save_fitted_map
from recveil.workflows.saved_maps import ApplyRequest

N_USERS = 300
METHODS = ("gaussian", "labelfree", "sliced")


def draw_users(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=n)
    return (rng.standard_normal((n, 4)) + 2 * np.eye(2, 4)[codes]).astype(np.float32), codes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Maps, 300 later users in one file and in a folder of two parts, and their attributes."""
    folder = tmp_path_factory.mktemp("apply_large")
    x, codes = draw_users(400, 0)
    table = ClearTable(InputSummary(name="E", n_users=400, d=4), x, [Attribute("gender", codes, ("F", "M"))])
    protocol = AuditProtocol(device="cpu")
    for method in METHODS:
        options = {"coordinates": "columns"} if method == "sliced" else {}
        result = cloak_table(table, ChosenDefense(method, options), protocol, audit=False)[1]
        save_fitted_map(folder / f"{method}.map", table, result, protocol)
    x, codes = draw_users(N_USERS, 1)
    gender = np.array(["F", "M"])[codes].tolist()
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 4)
    users = pa.table({"user_id": [f"u{n}" for n in range(N_USERS)], "gender": gender, "embedding": vectors})
    (folder / "parts").mkdir()
    pq.write_table(users, folder / "N.parquet")
    pq.write_table(users.slice(0, 120), folder / "parts" / "a.parquet")
    pq.write_table(users.slice(120), folder / "parts" / "b.parquet", row_group_size=50)
    pq.write_table(pa.table({"user_id": users["user_id"], "gender": [None, *gender[1:]]}), folder / "A.parquet")
    return folder


def read_vectors(path: Path) -> np.ndarray:
    return np.stack(pq.read_table(path)["embedding"].to_pylist())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("attributes", ["A.parquet", None], ids=["attributes in a file", "in the table"])
def test_parts_get_the_numbers_of_the_table_in_memory(
    folder: Path, tmp_path: Path, method: str, attributes: str | None
) -> None:
    facts = folder / attributes if attributes else None
    saved, request = folder / f"{method}.map", ApplyRequest(tmp_path / "C.parquet", device="cpu")
    in_memory = apply_files(saved, InputFiles(folder / "N.parquet", facts), request)
    large = apply_files(saved, InputFiles(folder / "parts", facts), ApplyRequest(tmp_path / "C"))
    assert large.n_users == N_USERS
    assert large.unprotected == in_memory.unprotected == {"gender": int(facts is not None and method != "labelfree")}
    names = sorted(path.name for path in (tmp_path / "C").iterdir())
    assert names == ["a.parquet", "b.parquet"]
    parts = [tmp_path / "C" / name for name in names]
    np.testing.assert_allclose(np.concatenate([read_vectors(p) for p in parts]), read_vectors(request.out), atol=1e-5)
    assert pq.read_table(parts[0]).column_names == ["user_id", "embedding"]
    again = apply_files(saved, InputFiles(folder / "parts", facts), ApplyRequest(tmp_path / "C"))
    assert again.n_users == N_USERS  # the job resumes, and finds everything done


def test_a_file_is_read_in_blocks_on_request(folder: Path, tmp_path: Path) -> None:
    files = InputFiles(folder / "N.parquet", stream=True)
    apply_files(folder / "labelfree.map", files, ApplyRequest(tmp_path / "C.parquet"))
    assert np.abs(read_vectors(tmp_path / "C.parquet") - read_vectors(folder / "N.parquet")).max() > 0.1


def test_later_users_may_all_be_of_one_class(folder: Path, tmp_path: Path) -> None:
    ids = pq.read_table(folder / "N.parquet")["user_id"]
    pq.write_table(pa.table({"user_id": ids, "gender": ["F"] * N_USERS}), tmp_path / "A.parquet")
    files = InputFiles(folder / "parts", tmp_path / "A.parquet")
    done = apply_files(folder / "gaussian.map", files, ApplyRequest(tmp_path / "C"))
    assert done.unprotected == {"gender": 0}


def test_what_cannot_be_carried_is_refused_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    ids = pq.read_table(folder / "N.parquet")["user_id"]
    pq.write_table(pa.table({"user_id": ids, "gender": ["X"] * N_USERS}), tmp_path / "A.parquet")
    far = tmp_path / "far"
    far.mkdir()
    table = pq.read_table(folder / "N.parquet")
    moved = pa.FixedSizeListArray.from_arrays(pa.array((read_vectors(folder / "N.parquet") + 5).ravel()), 4)
    pq.write_table(table.set_column(2, "embedding", moved), far / "a.parquet")
    out = tmp_path / "C"
    request, parts, saved = ApplyRequest(out), folder / "parts", folder / "gaussian.map"
    with pytest.raises(DataError, match="never saw the class 'X'"):
        apply_files(saved, InputFiles(parts, tmp_path / "A.parquet"), request)
    with pytest.raises(DataError, match="not like those"):
        apply_files(saved, InputFiles(far), request)
    with pytest.raises(UsageError, match="`released` cannot be used"):
        apply_files(saved, InputFiles(parts), ApplyRequest(out, released=folder / "N.parquet"))
    with pytest.raises(UsageError, match="`device` cannot be used"):
        apply_files(saved, InputFiles(parts), ApplyRequest(out, device="cuda"))
    with pytest.raises(UsageError, match="is read"):
        apply_files(saved, InputFiles(parts), ApplyRequest(parts))
    assert not list(out.glob("*.parquet"))
