import hashlib
import io
import json
import logging
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.progress import report_progress
from recveil.data.sources import catalog as sources
from recveil.data.sources import download as fetch
from recveil.data.sources.download import fetch_dataset


def archive_bytes(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, text in members.items():
            packed.writestr(f"ml-1m/{name}.dat", text)
    return buffer.getvalue()


ZIP = archive_bytes(ratings="1::10::5::1\n", users="1::F::1::10::48067\n")


class Handler(BaseHTTPRequestHandler):
    def __init__(self, pages, *args):
        self.pages = pages
        super().__init__(*args)

    def do_GET(self):
        page = self.pages.get(self.path)
        self.send_response(404 if page is None else 200)
        self.send_header("Content-Length", str(len(page or b"") + (99 if self.path.startswith("/cut") else 0)))
        self.end_headers()
        self.wfile.write(page or b"")

    def log_message(self, *args):
        pass


@pytest.fixture
def pages():
    return {"/ml-1m.zip": ZIP, "/cut.zip": ZIP, "/df_modcloth.csv": b"item_id,user_id,rating,timestamp\n1,2,3,4\n"}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECVEIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECVEIL_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def publish(cache, pages, monkeypatch):
    """A local publisher; call with a name, a path and a checksum to have that data set come from there."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, pages))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()

    def at(name, path, checksum=None):
        url = f"http://127.0.0.1:{server.server_port}{path}"
        monkeypatch.setitem(sources.SOURCES, name, replace(sources.SOURCES[name], url=url, checksum=checksum))
        return url

    yield at
    server.shutdown()
    server.server_close()
    thread.join()


def left(cache):
    return sorted(path.name for path in cache.iterdir()) if cache.is_dir() else []


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_a_download_with_the_right_checksum(publish, cache, kind):
    publish("ml-1m", "/ml-1m.zip", f"{kind}:{hashlib.new(kind, ZIP).hexdigest()}")
    assert fetch_dataset("ml-1m") == cache / "ml-1m"
    assert sources.load_dataset("ml-1m", user_core=0, item_core=0).n_users == 1
    assert left(cache) == ["ml-1m"]


def test_a_download_with_the_wrong_checksum_leaves_nothing(publish, cache):
    publish("ml-1m", "/ml-1m.zip", "md5:" + "0" * 32)
    with pytest.raises(DataError, match="its md5 is .* instead of 000.*Nothing was stored"):
        fetch_dataset("ml-1m")
    assert left(cache) == []


def test_an_unknown_checksum_is_pinned_and_logged(publish, cache, pages, caplog):
    url = publish("modcloth", "/df_modcloth.csv")
    fetch_dataset("modcloth")
    sha = hashlib.sha256(pages["/df_modcloth.csv"]).hexdigest()
    assert json.loads((cache / "checksums.json").read_text()) == {url: f"sha256:{sha}"}
    assert "No checksum is known" in caplog.text
    (cache / "modcloth" / "df_modcloth.csv").unlink()
    fetch_dataset("modcloth")  # the same again is welcome
    (cache / "modcloth" / "df_modcloth.csv").unlink()
    pages["/df_modcloth.csv"] += b"5,6,7,8\n"
    with pytest.raises(DataError, match=r"remove its line from .*checksums\.json"):
        fetch_dataset("modcloth")


def test_a_broken_table_of_checksums_is_one_sentence(publish, cache):
    publish("modcloth", "/df_modcloth.csv")
    cache.mkdir()
    (cache / "checksums.json").write_text("[")
    with pytest.raises(DataError, match="not a table of checksums"):
        fetch_dataset("modcloth")


def test_a_cached_data_set_is_not_fetched_again(publish, cache, pages, caplog):
    publish("ml-1m", "/ml-1m.zip")
    fetch_dataset("ml-1m")
    pages.clear()
    caplog.set_level(logging.INFO)
    assert fetch_dataset("ml-1m") == cache / "ml-1m"
    assert "already" in caplog.text


def test_progress_counts_the_pieces(publish, monkeypatch):
    monkeypatch.setattr(fetch, "_CHUNK_BYTES", 10)
    publish("ml-1m", "/ml-1m.zip")
    seen = []

    def reporter(items, label, total):
        pieces = list(items)
        seen.append((label, total, len(pieces)))
        return pieces

    with report_progress(reporter):
        fetch_dataset("ml-1m")
    pieces = -(-len(ZIP) // 10)
    assert seen == [("downloading ml-1m", pieces, pieces)]


@pytest.mark.parametrize(("path", "says"), [("/gone.zip", "answered 404"), ("/cut.zip", "broke off")])
def test_failed_downloads_say_what_to_do(publish, cache, path, says):
    publish("ml-1m", path)
    with pytest.raises(DataError, match=says) as caught:
        fetch_dataset("ml-1m")
    assert "by hand from https://grouplens.org" in str(caught.value)
    assert left(cache) == []


def test_offline_says_what_to_do(publish, cache, monkeypatch):
    publish("ml-1m", "/ml-1m.zip")
    source = sources.SOURCES["ml-1m"]
    monkeypatch.setitem(sources.SOURCES, "ml-1m", replace(source, url="http://127.0.0.1:1/ml-1m.zip"))
    with pytest.raises(DataError, match="could not be reached") as caught:
        fetch_dataset("ml-1m")
    assert source.page in str(caught.value)
    assert "by hand" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_web_addresses_are_fetched(cache, monkeypatch, tmp_path):
    (tmp_path / "ml-1m.zip").write_bytes(ZIP)
    source = replace(sources.SOURCES["ml-1m"], url=(tmp_path / "ml-1m.zip").as_uri(), checksum=None)
    monkeypatch.setitem(sources.SOURCES, "ml-1m", source)
    with pytest.raises(DataError, match="not http or https"):
        fetch_dataset("ml-1m")


def test_no_address_says_where_to_look(cache):
    with pytest.raises(DataError, match="No address is known.*cp.jku.at"):
        fetch_dataset("lfm-2b")


def test_an_unknown_name(cache):
    with pytest.raises(UsageError, match="Did you mean 'ml-1m'"):
        fetch_dataset("ml-1n")


def test_from_an_archive_a_folder_and_a_file(cache, tmp_path):
    (tmp_path / "x.zip").write_bytes(ZIP)
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "ratings.dat").write_text("1::10::5::1\n2::10::5::1\n")
    (tmp_path / "folder" / "deep" / "users.dat").write_text("1::F::1::10::48067\n")
    fetch_dataset("ml-1m", source=tmp_path / "x.zip")
    assert sources.load_dataset("ml-1m", user_core=0, item_core=0).n_users == 1
    fetch_dataset("ml-1m", source=tmp_path / "folder")  # what is given takes the place of what is there
    assert sources.load_dataset("ml-1m", user_core=0, item_core=0).n_users == 2
    (tmp_path / "interactions.csv").write_text("user_id,item_id\n1,2\n")
    fetch_dataset("coat", source=tmp_path / "interactions.csv")
    assert len(sources.load_dataset("coat")) == 1
    assert left(cache) == ["coat", "ml-1m"]


def test_a_wrong_source_leaves_the_cache_unchanged(cache, tmp_path):
    (tmp_path / "x.zip").write_bytes(ZIP)
    fetch_dataset("ml-1m", source=tmp_path / "x.zip")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.zip").write_bytes(ZIP[:50])
    (tmp_path / "notes.txt").write_text("x")
    for name, says in (
        ("empty", r"does not hold ratings\.dat"),
        ("notes.txt", r"does not hold ratings\.dat"),
        ("bad.zip", "damaged or cut short"),
        ("gone", "There is no file or folder"),
    ):
        with pytest.raises(DataError, match=says):
            fetch_dataset("ml-1m", source=tmp_path / name)
    assert left(cache) == ["ml-1m"]
    assert sources.load_dataset("ml-1m", user_core=0, item_core=0).n_users == 1


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    (tmp_path / "x.zip").write_bytes(ZIP)
    monkeypatch.setenv("RECVEIL_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="Cannot put 'ml-1m' into the cache"):
        fetch_dataset("ml-1m", source=tmp_path / "x.zip")


def test_a_process_killed_while_a_data_set_is_replaced_loses_nothing(cache, tmp_path):
    (tmp_path / "u.zip").write_bytes(ZIP)
    fetch_dataset("ml-1m", source=tmp_path / "u.zip")
    work = cache / ".ml-1m.recveil"
    work.mkdir(mode=0o700)
    (cache / "ml-1m").rename(work / "old")  # killed here
    with pytest.raises(DataError):
        fetch_dataset("ml-1m", source=tmp_path / "none.zip")
    assert left(cache) == ["ml-1m"]
