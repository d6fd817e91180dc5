from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest

from recveil.core.errors import DataError
from recveil.data.io.formats.feather import FORMAT, read_feather

TABLE = pa.table({"user_id": [2, 1], "embedding": pa.array([[1.0], [2.0]], pa.list_(pa.float16(), 1))})


@pytest.mark.parametrize("name", ["a.feather", "a.arrow"])
def test_types_stay_in_both_forms(tmp_path: Path, name: str) -> None:
    assert FORMAT.write is not None
    FORMAT.write(tmp_path / name, TABLE, None)
    assert read_feather(tmp_path / name).equals(TABLE)
    with (tmp_path / "s.arrow").open("wb") as file, pyarrow.ipc.new_stream(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    FORMAT.write(tmp_path / "copy.arrow", TABLE, tmp_path / "s.arrow")
    assert (tmp_path / "copy.arrow").read_bytes() == (tmp_path / "s.arrow").read_bytes()


def test_other_files_are_refused(tmp_path: Path) -> None:
    for content in (b"ARROW1\x00\x00 and nothing", b"FEA1", b"text"):
        (tmp_path / "a.arrow").write_bytes(content)
        with pytest.raises(DataError, match="not a whole Feather or Arrow file"):
            read_feather(tmp_path / "a.arrow")
