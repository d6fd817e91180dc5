"""Every format with files that its own library wrote: ids are right, and the file comes back in the same form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foreign_files import FILES, ForeignFile
from recveil.core.errors import DataError, UsageError
from recveil.data.io.formats.registry import FORMATS, find_format, get_ending, is_typed_table, list_endings
from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import Vectors, read_embeddings

ROOT = Path(__file__).parents[4]
N, D = 40, 3
X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float16).astype(np.float32)
IDS = np.random.default_rng(1).permutation(np.arange(100, 100 + N))
ROUNDED = np.round(X * 8) / 8  # numbers that every type holds exactly
CASES = [pytest.param(m, id=m.format, marks=[pytest.mark.thorough] if m.library == "gensim" else []) for m in FILES]
EVERY_FILE = pytest.mark.parametrize("made", CASES)


def read_made(made: ForeignFile, folder: Path, ids: np.ndarray = IDS) -> Vectors:
    made.write(folder / made.name, ids, ROUNDED)
    if made.holds_ids:
        return read_embeddings(folder / made.name)
    np.save(folder / "ids.npy", ids)
    return read_embeddings(folder / made.name, folder / "ids.npy")


def list_ids(vectors: Vectors) -> list[int]:
    return [int(str(i).removeprefix("u")) for i in vectors.ids.to_pylist()]


@EVERY_FILE
def test_files_of_libraries_are_read_with_the_right_ids_and_written_back(made: ForeignFile, tmp_path: Path) -> None:
    vectors = read_made(made, tmp_path)
    assert list_ids(vectors) == IDS.tolist()
    np.testing.assert_array_equal(vectors.x, ROUNDED)
    out = tmp_path / f"out-{made.name}"
    write_embeddings(out, vectors, 2 * vectors.x)
    ids, x = made.read(out)
    assert ids is None or list(map(int, ids)) == IDS.tolist()
    np.testing.assert_array_equal(x, 2 * ROUNDED)
    assert np.asarray(x).dtype == np.asarray(made.read(tmp_path / made.name)[1]).dtype
    assert not made.holds_ids or list_ids(read_embeddings(out)) == IDS.tolist()


@EVERY_FILE
def test_what_was_written_is_the_same_for_the_same_vectors(made: ForeignFile, tmp_path: Path) -> None:
    vectors = read_made(made, tmp_path)
    for name in ("one-", "two-"):
        write_embeddings(tmp_path / f"{name}{made.name}", vectors, vectors.x)
    if made.format != "PyTorch before 1.6":  # torch writes addresses of memory into these
        assert (tmp_path / f"one-{made.name}").read_bytes() == (tmp_path / f"two-{made.name}").read_bytes()


@EVERY_FILE
def test_cut_files_are_refused_in_one_sentence(made: ForeignFile, tmp_path: Path) -> None:
    read_made(made, tmp_path)
    path, ids = tmp_path / made.name, None if made.holds_ids else tmp_path / "ids.npy"
    content = path.read_bytes()
    for size in (1, len(content) // 2, len(content) - 40):
        path.write_bytes(content[:size])
        with pytest.raises((DataError, UsageError)) as caught:
            read_embeddings(path, ids)
        assert "\n" not in str(caught.value)


def test_every_format_has_a_file_of_a_library() -> None:
    tested = {ending for made in FILES for ending in find_format(Path(made.name)).endings}
    assert [f.name for f in FORMATS if not tested & set(f.endings)] == ["Keras"]  # has a test of its own


def test_a_format_is_found_by_the_ending() -> None:
    assert get_ending(Path("users.CSV.gz")) == ".csv"
    assert find_format(Path("a.b.pq")).name == "Parquet"
    assert is_typed_table(Path("a.feather"))
    assert not is_typed_table(Path("a.csv"))
    assert ".inter" in list_endings()
    assert ".inter" not in list_endings(written=True)
    for name in ("users", "users.xlsx", "users.parquet.gz", "users.npy.gz", "x.gz"):
        with pytest.raises(DataError, match="Cannot tell what"):
            find_format(Path(name))


def test_the_documentation_lists_the_files_that_are_tested() -> None:
    rows = [
        f"| {made.format} | `{made.name[made.name.index('.') :]}` | {made.library} | yes | yes | "
        f"{'yes' if made.holds_ids else 'by `--ids`'} |"
        for made in FILES
    ]
    text = (ROOT / "docs" / "reference" / "files.md").read_text()
    assert [row for row in rows if row not in text] == [], "\n".join(rows)
