import bz2

import pytest

from recveil.core.errors import DataError
from recveil.data.cleaning import Cleaning, clean_dataset
from recveil.data.sources import lfm2b

USERS = (
    "user_id\tcountry\tage\tgender\tcreation_time\n2\tUK\t37\tm\t2002-10-28 01:00:00\n4\t\t-1\tn\t2003-01-01 00:00:00\n"
)
COUNTS = "user_id\ttrack_id\tcount\n2\t10\t1\n2\t11\t5\n4\t10\t2\n"
EVENTS = "user_id\ttrack_id\talbum_id\ttimestamp\n2\t10\t7\t2005-02-14 00:00:07\n4\t10\t7\t2005-02-14 00:00:00\n"


def put(folder, name, text, packed):
    (folder / (name + ".bz2" if packed else name)).write_bytes(bz2.compress(text.encode()) if packed else text.encode())


@pytest.mark.parametrize("packed", [True, False])
def test_counts(tmp_path, packed):
    put(tmp_path, "users.tsv", USERS, packed)
    put(tmp_path, "listening-counts.tsv", COUNTS, packed)
    dataset = clean_dataset(lfm2b.read_lfm2b(tmp_path), "d")
    assert dataset.user_ids.tolist() == [2, 4]
    assert dataset.item.tolist() == [0, 1, 0]
    assert dataset.time is None
    assert set(dataset.attributes) == {"country", "age", "gender", "age3", "age7"}
    assert {name: known.codes.tolist() for name, known in dataset.attributes.items()}["gender"] == [0, -1]
    assert dataset.attributes["age"].codes.tolist() == [0, -1]
    assert len(clean_dataset(lfm2b.read_lfm2b(tmp_path), "d", Cleaning(min_rating=2))) == 2


def test_events_where_there_are_no_counts(tmp_path):
    put(tmp_path, "users.tsv", USERS, False)
    put(tmp_path, "listening-events.tsv", EVENTS, False)
    dataset = clean_dataset(lfm2b.read_lfm2b(tmp_path), "d")
    assert np_diff(dataset.time) == [-7]


def np_diff(time):
    return [int(b - a) for a, b in zip(time[:-1], time[1:], strict=True)]


def test_a_missing_file_is_named(tmp_path):
    put(tmp_path, "listening-counts.tsv", COUNTS, False)
    with pytest.raises(DataError, match=r"does not hold users\.tsv"):
        lfm2b.read_lfm2b(tmp_path)
