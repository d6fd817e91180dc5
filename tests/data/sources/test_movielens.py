import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.data.cleaning import Cleaning, clean_dataset
from recveil.data.io import archive
from recveil.data.io.tables import read_raw
from recveil.data.sources import movielens


def small_100k(folder):
    (folder / "u.data").write_text("196\t242\t3\t881250949\n186\t302\t3\t891717742\n196\t302\t1\t878887116\n")
    (folder / "u.user").write_bytes(b"186|24|M|technician|85711\n196|53|F|\xe9diteur|T8H1N\n")
    return folder


def small_1m(folder):
    (folder / "ratings.dat").write_text("1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978301968\n")
    (folder / "users.dat").write_text("1::F::1::10::48067\n2::M::56::16::02139-1234\n")
    return folder


def test_100k(tmp_path):
    raw = movielens.read_100k(small_100k(tmp_path))
    assert raw.interactions.to_pylist()[0] == {"user_id": 196, "item_id": 242, "rating": 3, "timestamp": 881250949}
    assert raw.users.to_pydict()["occupation"] == ["technician", "éditeur"]
    assert raw.users.to_pydict()["age"] == [24, 53]


def test_1m_also_when_the_folder_is_nested(tmp_path):
    (tmp_path / "ml-1m").mkdir()
    small_1m(tmp_path / "ml-1m")
    raw = movielens.read_1m(tmp_path)
    assert raw.interactions.to_pydict()["item_id"] == [1193, 661, 1193]
    assert raw.users.to_pylist()[1] == {
        "user_id": 2, "gender": "M", "age": 56, "occupation": 16, "zip_code": "02139-1234",
    }  # fmt: skip


def test_a_missing_file_is_named(tmp_path):
    (small_1m(tmp_path) / "users.dat").unlink()
    with pytest.raises(DataError, match=r"does not hold users\.dat"):
        movielens.read_1m(tmp_path)


def test_a_cut_file_is_named(tmp_path):
    path = small_1m(tmp_path) / "ratings.dat"
    path.write_bytes(path.read_bytes()[:-15])
    with pytest.raises(DataError, match=r"ratings\.dat cannot be read"):
        movielens.read_1m(tmp_path)


def same(a, b):
    for name in ("user", "item", "time", "user_ids", "item_ids"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert set(a.attributes) == set(b.attributes)
    for name, attribute in a.attributes.items():
        np.testing.assert_array_equal(attribute.codes, b.attributes[name].codes)
        assert attribute.labels == b.attributes[name].labels


def counts(dataset, name):
    attribute = dataset.attributes[name]
    return dict(zip(attribute.labels, attribute.counts.tolist(), strict=True))


def test_the_real_100k_from_zip_folder_and_parquet(shared_data, tmp_path):
    zipped = shared_data / "ml-100k" / "ml-100k.zip"
    folder = archive.extract_archive(zipped, tmp_path / "ml-100k")
    with archive.open_folder(zipped) as unpacked:
        dataset = clean_dataset(movielens.read_100k(unpacked), "ml-100k")
    assert (dataset.n_users, dataset.n_items, len(dataset)) == (943, 1682, 100_000)
    assert counts(dataset, "gender") == {"F": 273, "M": 670}
    assert counts(dataset, "occupation")["student"] == 196
    assert counts(dataset, "age3")["<35"] == 544
    assert sum(counts(dataset, "age7").values()) == 943
    assert "zip_code" not in dataset.attributes
    same(dataset, clean_dataset(movielens.read_100k(folder), "ml-100k"))
    same(dataset, clean_dataset(read_raw(shared_data / "ml-100k"), "ml-100k"))


def test_the_real_1m_has_the_core_of_raid(shared_data):
    core = Cleaning(user_core=5, item_core=5)
    with archive.open_folder(shared_data / "ml-1m" / "ml-1m.zip") as unpacked:
        dataset = clean_dataset(movielens.read_1m(unpacked), "ml-1m", core)
    assert (dataset.n_users, dataset.n_items, len(dataset)) == (6040, 3416, 999_611)
    assert counts(dataset, "gender") == {"F": 1709, "M": 4331}
    assert list(counts(dataset, "age").values()) == list(counts(dataset, "age7").values())
    same(dataset, clean_dataset(read_raw(shared_data / "ml-1m"), "ml-1m", core))
