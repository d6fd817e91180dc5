from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from recveil.core.errors import UsageError
from recveil.data.io.formats.delimited import read_csv, read_tsv
from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import Layout, read_embeddings


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_the_delimiter_stays(tmp_path: Path, mark: str) -> None:
    text = "\n".join(mark.join(cells) for cells in [("uid", "f0", "f1", "note"), ("007", "0.5", "1.5", "1.10")]) + "\n"
    (tmp_path / "e.csv").write_text(text)
    vectors = read_embeddings(tmp_path / "e.csv", layout=Layout(("f0", "f1")))
    write_embeddings(tmp_path / "out.csv", vectors, vectors.x)
    assert (tmp_path / "out.csv").read_text() == text
    assert read_csv(tmp_path / "e.csv").column_names == ["uid", "f0", "f1", "note"]


@pytest.mark.parametrize("name", ["e.csv", "e.csv.gz", "e.tsv"])
@pytest.mark.parametrize(("mark", "end"), [(b"", b"\n"), (b"", b"\r\n"), (b"\xef\xbb\xbf", b"\r\n")])
def test_line_ends_and_the_byte_order_mark_stay(tmp_path: Path, name: str, mark: bytes, end: bytes) -> None:
    cut = b"\t" if name == "e.tsv" else b","
    lines = (b"user_id", b"f0", b"f1", b"note"), (b"007", b"0.5", b"1.5", b" 1.10 "), (b"8", b"2", b"2.5", b"")
    written = mark + b"".join(cut.join(cells) + end for cells in lines)
    pack, unpack = (gzip.compress, gzip.decompress) if name.endswith(".gz") else (bytes, bytes)
    (tmp_path / name).write_bytes(pack(written))
    vectors = read_embeddings(tmp_path / name, layout=Layout(("f0", "f1")))
    write_embeddings(tmp_path / f"out-{name}", vectors, vectors.x)
    assert unpack((tmp_path / f"out-{name}").read_bytes()) == written


def test_atomic_files_are_read_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "e.user").write_text("user_id:token\tvec:float_seq\n1\t0.5 1.5\n2\t1 2\n")
    assert read_tsv(tmp_path / "e.user").column_names == ["user_id", "vec"]
    vectors = read_embeddings(tmp_path / "e.user", layout=Layout(("vec",)))
    assert vectors.x.tolist() == [[0.5, 1.5], [1, 2]]
    with pytest.raises(UsageError, match="RecBole atomic files are read and not written"):
        write_embeddings(tmp_path / "out.user", vectors, vectors.x)
    write_embeddings(tmp_path / "out.tsv", vectors, vectors.x)
    assert (tmp_path / "out.tsv").read_text() == "user_id\tvec\n1\t[0.5, 1.5]\n2\t[1, 2]\n"
