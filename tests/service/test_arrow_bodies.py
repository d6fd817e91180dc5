"""Tables in bodies: Arrow and Parquet, in and out."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

import recveil
from recveil.core.errors import DataError
from recveil.service import arrow_bodies
from recveil.service.arrow_bodies import carry_table
from recveil.service.documents import ARROW_FILE, ARROW_STREAM, PARQUET
from recveil.service.served_map import ServedMap
from service.tools import draw_users, make_table

KINDS = (PARQUET, ARROW_STREAM, ARROW_FILE)


def write_table(table: pa.Table, kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == PARQUET:
        pq.write_table(table, sink)
    else:
        with (pa.ipc.new_stream if kind == ARROW_STREAM else pa.ipc.new_file)(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def read_table(content: bytes, kind: str) -> pa.Table:
    if kind == PARQUET:
        return pq.read_table(io.BytesIO(content))
    return (pa.ipc.open_stream if kind == ARROW_STREAM else pa.ipc.open_file)(content).read_all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_comes_back_in_its_form_without_the_attribute(
    kind: str, serve: Callable[..., TestClient], maps: dict[str, Path]
) -> None:
    x, codes = draw_users()
    table = pq.read_table(io.BytesIO(make_table())).append_column("city", pa.array(["a"] * len(x)))
    client = serve(map_path=maps["gaussian"])
    answer = client.post("/apply", content=write_table(table, kind), headers={"content-type": kind})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == kind
    carried = read_table(answer.content, kind)
    assert carried.column_names == ["user_id", "embedding", "city"]
    assert carried["user_id"].to_pylist() == list(range(len(x)))
    labels = [None if row < 5 else "FM"[code] for row, code in enumerate(codes)]
    expected = recveil.load_map(maps["gaussian"]).transform(x, labels)
    np.testing.assert_allclose(np.stack(carried["embedding"].to_numpy()), expected, atol=1e-5)
    assert json.loads(answer.headers["x-recveil-unprotected"]) == {"gender": 5}
    assert "5 of 160" in json.loads(answer.headers["x-recveil-notes"])[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["empty", "cut", "noise", "no vectors", "two columns of one name", "nan"])
def test_damaged_tables_are_refused(kind: str, damage: str, maps: dict[str, Path]) -> None:
    served = ServedMap.load(maps["labelfree"])
    table = pq.read_table(io.BytesIO(make_table()))
    whole = write_table(table, kind)
    nan = pa.array([[np.nan] * 4] * len(table), pa.list_(pa.float32()))
    bodies = {
        "empty": b"",
        "cut": whole[: len(whole) // 2],
        "noise": np.random.default_rng(0).bytes(400),
        "no vectors": write_table(table.drop_columns(["embedding"]), kind),
        "two columns of one name": write_table(table.rename_columns(["user_id", "embedding", "user_id"]), kind),
        "nan": write_table(table.set_column(1, "embedding", nan), kind),
    }
    with pytest.raises(DataError):
        carry_table(served, bodies[damage], kind, allow_drift=False)


def test_a_parquet_table_that_unpacks_to_too_much_is_refused(
    maps: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow_bodies, "MAX_UNPACKED_BYTES", 1_000)
    with pytest.raises(DataError, match="memory"):
        carry_table(ServedMap.load(maps["labelfree"]), make_table(), PARQUET, allow_drift=False)
