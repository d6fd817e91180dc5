import bz2
import gzip

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import DataError
from recveil.data.io.text import detect_delimiter, narrow_column, read_delimited


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-(10**12), 10**12).map(str)), min_size=1))
def test_whole_numbers_are_narrowed_without_loss(texts):
    column = pa.chunked_array([pa.array(texts, pa.string())])
    assert narrow_column(column).cast(pa.string()).to_pylist() == texts


@pytest.mark.parametrize(
    "texts", [["007", "7"], ["+1", "1"], ["02139", "94043"], ["a", "1"], ["99999999999999999999", "1"]]
)
def test_text_that_a_number_would_change_stays_text(texts):
    assert narrow_column(pa.chunked_array([texts])).to_pylist() == texts


def test_decimals_become_numbers():
    assert narrow_column(pa.chunked_array([["1.5", None, "2"]])).to_pylist() == [1.5, None, 2.0]


def test_a_long_delimiter(tmp_path):
    path = tmp_path / "users.dat"
    path.write_bytes("1::é::x\n2::::y\n".encode("latin-1"))
    table = read_delimited(path, delimiter="::", names=["a", "b", "c"], encoding="latin1")
    assert table.to_pydict() == {"a": ["1", "2"], "b": ["é", None], "c": ["x", "y"]}


@pytest.mark.parametrize(("end", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress)])
def test_packed_files_read_like_plain_ones(tmp_path, end, pack):
    path = tmp_path / f"t.tsv{end}"
    path.write_bytes(pack(b'a\tb\n1\tthe "x"\n2\t\n'))
    table = read_delimited(path, delimiter="\t", types={"a": pa.int64()})
    assert table.to_pydict() == {"a": [1, 2], "b": ['the "x"', None]}


def test_ragged_rows_are_refused_or_left_out(tmp_path, caplog):
    path = tmp_path / "t.tsv"
    path.write_text("a\tb\n1\t2\n3\n4\t5\t6\n7\t8\n")
    with pytest.raises(DataError, match=r"t\.tsv cannot be read as a table: .*Expected 2 columns, got 1"):
        read_delimited(path, delimiter="\t")
    assert read_delimited(path, delimiter="\t", skip_ragged=True).to_pydict() == {"a": ["1", "7"], "b": ["2", "8"]}
    assert "left out 2 rows" in caplog.text


def test_a_column_that_is_not_there(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="lacks a column.*click"):
        read_delimited(path, delimiter=",", only=["a", "click"])


@pytest.mark.parametrize(("line", "delimiter"), [("a,b", ","), ("a\tb", "\t"), ("a;b;c,d", ";"), ("a", ",")])
def test_the_delimiter_shows_in_the_first_line(tmp_path, line, delimiter):
    path = tmp_path / "t.csv"
    path.write_text(line + "\n1\n")
    assert detect_delimiter(path, "utf8") == delimiter
