from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.data.io.formats.json_lines import read_json_lines
from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import Layout, read_embeddings

ROWS = [
    {"user_id": "007", "vec": [0.1, -2.5], "gender": "F", "tags": ["a", "b"]},
    {"user_id": "7", "vec": [1e-7, 3.0], "gender": None, "tags": []},
]


def test_every_value_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    vectors = read_embeddings(path, layout=Layout(("vec",)))
    assert vectors.ids.to_pylist() == ["007", "7"]
    write_embeddings(tmp_path / "out.jsonl", vectors, vectors.x)
    again = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert again == ROWS  # 0.1 is 0.1, not 0.10000000149011612
    assert (tmp_path / "out.jsonl").read_bytes() == path.read_bytes()


def test_numbers_in_columns(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text('{"uid": 2, "f0": 0.5, "f1": 1}\n{"uid": 1, "f0": 1, "f1": 2}\n')
    vectors = read_embeddings(tmp_path / "e.jsonl", layout=Layout(("f*",)))
    np.testing.assert_array_equal(vectors.x, [[0.5, 1], [1, 2]])
    write_embeddings(tmp_path / "out.jsonl", vectors, vectors.x * 2)
    assert read_embeddings(tmp_path / "out.jsonl", layout=Layout(("f0", "f1"))).x.tolist() == [[1, 2], [2, 4]]


@pytest.mark.parametrize("text", ['[{"user_id": 1}]', "not json\n", '{"user_id": 1\n', '{"a": 1}\n{"a": "x"}\n'])
def test_other_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "e.json").write_text(text)
    with pytest.raises(DataError, match="one JSON object on each line"):
        read_json_lines(tmp_path / "e.json")
