import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.data.sources.catalog import cache_folder, load_dataset, locate_files

RATINGS = "1::10::5::1\n1::11::3::2\n2::10::4::3\n"
USERS = "1::F::1::10::48067\n2::M::56::16::70072\n"


@pytest.fixture
def data(tmp_path, monkeypatch):
    """An empty data folder and an empty cache."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("RECVEIL_DATA", str(folder))
    monkeypatch.setenv("RECVEIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return folder


def official(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ratings.dat").write_text(RATINGS)
    (folder / "users.dat").write_text(USERS)


def zipped(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("ml-1m/ratings.dat", RATINGS)
        packed.writestr("ml-1m/users.dat", USERS)


def prepared(folder, item=10):
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"user_id": [1, 2], "item_id": [item, item]}), folder / "interactions.parquet")
    pq.write_table(pa.table({"user_id": [1, 2], "gender": ["F", "M"]}), folder / "users.parquet")


def raw(name):
    return load_dataset(name, user_core=0, item_core=0)


LAYOUTS = {
    "folder": lambda root: official(root / "ml-1m"),
    "nested folder": lambda root: official(root / "ml-1m" / "ml-1m"),
    "zip": lambda root: zipped(root / "ml-1m.zip"),
    "zip in folder": lambda root: zipped(root / "ml-1m" / "ml-1m.zip"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("root", ["data", "cache"])
def test_every_layout_is_found_in_the_data_folder_and_in_the_cache(data, layout, root):
    LAYOUTS[layout](data.parent / root)
    dataset = raw("ml-1m")
    assert (dataset.name, dataset.n_users, dataset.n_items, len(dataset)) == ("ml-1m", 2, 2, 3)
    assert dataset.attributes["gender"].codes.tolist() == [0, 1]


def test_tables_are_found_and_the_official_layout_comes_first(data):
    prepared(data / "ml-1m")
    assert len(raw("ml-1m")) == 2
    zipped(data / "ml-1m" / "ml-1m.zip")
    assert len(raw("ml-1m")) == 3


def test_the_data_folder_comes_before_the_cache(data):
    official(cache_folder() / "ml-1m")
    assert locate_files("ml-1m") == cache_folder() / "ml-1m"
    prepared(data / "ml-1m")
    assert locate_files("ml-1m") == data / "ml-1m"


def test_the_default_cleaning_is_that_of_the_source(data):
    official(data / "ml-1m")
    with pytest.raises(DataError, match="every user must have 5 and every item 5"):
        load_dataset("ml-1m")
    assert len(load_dataset("ml-1m", user_core=1, item_core=2)) == 2
    assert len(load_dataset("ml-1m", user_core=0, item_core=0, min_rating=4)) == 2


def test_any_folder_with_interactions_has_a_name(data):
    prepared(data / "mine")
    assert load_dataset("mine").name == "mine"
    assert load_dataset("mine").attributes["gender"].labels == ("F", "M")


@pytest.mark.parametrize("given", ["", "..", ".", "data/../data"])
def test_names_do_not_climb(data, given):
    prepared(data.parent)
    assert locate_files(given) is None


def test_paths(data):
    elsewhere = data.parent / "elsewhere"
    official(elsewhere / "raw")
    for path in (elsewhere / "raw", elsewhere / "raw" / "ratings.dat"):
        dataset = load_dataset(path, user_core=0, item_core=0)
        assert (dataset.name, len(dataset)) == ("ml-1m", 3), path
    zipped(elsewhere / "download.zip")
    assert load_dataset(elsewhere / "download.zip", user_core=0, item_core=0).name == "ml-1m"
    prepared(elsewhere / "mine")
    for path in (elsewhere / "mine", elsewhere / "mine" / "interactions.parquet"):
        assert load_dataset(path).attributes["gender"].labels == ("F", "M")
    (elsewhere / "log.csv").write_text("user,item\na,x\nb,x\n")
    assert load_dataset(elsewhere / "log.csv").user_ids.tolist() == ["a", "b"]
    (elsewhere / "ratings_Toys.csv").write_text("A39HTATAQ9V7YF,0205616461,5.0,1369699200\n")
    assert load_dataset(elsewhere / "ratings_Toys.csv").item_ids.tolist() == ["0205616461"]


def test_attributes_can_be_cut_kept_and_numbers(data):
    official(data / "ml-1m")
    dataset = load_dataset(
        "ml-1m", user_core=0, item_core=0, bins={"age": [18]}, numeric=["occupation"], keep=["zip_code"]
    )
    assert dataset.attributes["age"].labels == ("<18", "18+")
    assert dataset.attributes["occupation"].values.tolist() == [10, 16]
    assert dataset.attributes["zip_code"].labels == ("48067", "70072")


@pytest.mark.parametrize(("name", "first"), [("ml-1m", "recveil data get ml-1m"), ("coat", "by hand from https")])
def test_a_missing_data_set_is_an_error_that_says_what_to_do(data, name, first):
    with pytest.raises(DataError, match="is not on this machine") as caught:
        load_dataset(name)
    message = str(caught.value)
    assert first in message
    assert f"set RECVEIL_DATA to a folder that holds {name}/" in message
    assert str(data) in message
    assert "\n" not in message


def test_an_unknown_name_gets_a_guess(data):
    with pytest.raises(UsageError, match=r"No data set is called 'ml1m'\. Did you mean 'ml-1m'"):
        load_dataset("ml1m")


@pytest.mark.parametrize("path", ["gone.csv", "gone/data"])
def test_a_path_that_is_not_there(data, path):
    with pytest.raises(DataError, match="There is no file or folder gone"):
        load_dataset(path)


def test_a_truncated_zip_is_one_sentence(data):
    zipped(data / "ml-1m.zip")
    whole = (data / "ml-1m.zip").read_bytes()
    (data / "ml-1m.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"ml-1m\.zip is damaged or cut short"):
        load_dataset("ml-1m")


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("RECVEIL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "recveil"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "recveil"
    monkeypatch.setenv("RECVEIL_CACHE", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x"


@pytest.mark.parametrize(
    ("name", "users", "items", "interactions"),
    [
        ("ml-100k", 943, 1682, 100_000),
        ("ml-1m", 6040, 3416, 999_611),
        ("lastfm-360k-15k", 15_000, 1004, 289_953),
        ("book-crossing-caserec", 2946, 17_384, 272_678),
        # 366 pairs are both in the chosen and in the random part.
        ("coat", 290, 300, 11_234),
        ("deezer-genres-hu-ro", 89_311, 86, 537_033),
        ("amazon-beauty-5core", 22_363, 12_101, 198_502),
        ("amazon-digital-music-cure4rec", 22_878, 115_082, 238_692),
    ],
)
def test_real_data_have_the_published_size(shared_data, monkeypatch, name, users, items, interactions):
    monkeypatch.setenv("RECVEIL_DATA", str(shared_data))
    if locate_files(name) is None:
        pytest.skip(f"{name} is not in {shared_data}")
    dataset = load_dataset(name)
    assert (dataset.n_users, dataset.n_items, len(dataset)) == (users, items, interactions)


def classes(dataset, name):
    attribute = dataset.attributes[name]
    return dict(zip(attribute.labels, attribute.counts.tolist(), strict=True))


def test_real_attributes(shared_data, monkeypatch):
    monkeypatch.setenv("RECVEIL_DATA", str(shared_data))
    music = load_dataset("lastfm-360k-15k")
    assert classes(music, "gender") == {"f": 3851, "m": 11_149}
    assert len(classes(music, "country")) == 159
    books = load_dataset("book-crossing-caserec")
    assert int((~books.attributes["age"].known).sum()) == 16
    assert classes(books, "age3")["<35"] == 1542
    assert "location" not in books.attributes
    coats = load_dataset("coat")
    assert classes(coats, "gender") == {"men": 162, "women": 128}
    assert "age3" not in coats.attributes
    beauty = load_dataset("amazon-beauty-5core")
    assert beauty.time.min() == 0
    assert beauty.attributes == {}


def test_labels_of_own_data_that_look_undisclosed_are_so_and_are_noted(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "interactions.csv").write_text("user_id,item_id\n" + "".join(f"{u},1\n" for u in range(6)))
    (tmp_path / "own" / "users.csv").write_text(
        "user_id,gender\n" + "".join(f"{u},{label}\n" for u, label in enumerate(["F", "M", "unknown"] * 2))
    )
    data = load_dataset(tmp_path / "own")
    assert data.attributes["gender"].labels == ("F", "M")
    assert any("2 users labelled 'unknown' are treated as undisclosed" in note for note in data.notes)
