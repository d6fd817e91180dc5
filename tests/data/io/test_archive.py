import io
import tarfile
import zipfile

import pytest

from recveil.core.errors import DataError
from recveil.data.io.archive import extract_archive, is_archive, open_folder

CONTENT = {"d/a.txt": b"hello", "d/sub/b.txt": b"world" * 1000}


def make_zip(path, content=CONTENT):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in content.items():
            packed.writestr(name, data)
    return path


def make_tar(path, content=CONTENT):
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def make(path, content=CONTENT):
    return make_zip(path, content) if path.suffix == ".zip" else make_tar(path, content)


def members(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(params=["x.zip", "x.tar", "x.tar.gz", "x.tgz"])
def name(request):
    return request.param


def test_packed_files_come_out(tmp_path, name):
    folder = extract_archive(make(tmp_path / name), tmp_path / "out")
    assert members(folder) == CONTENT
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "out"])


def test_an_archive_is_open_only_inside_the_block(tmp_path, name):
    with open_folder(make(tmp_path / name)) as folder:
        assert members(folder) == CONTENT
    assert not folder.exists()
    with open_folder(tmp_path) as folder:
        assert folder == tmp_path


def check_refused(archive, tmp_path, says, **limits):
    with pytest.raises(DataError, match=says) as caught:
        extract_archive(archive, tmp_path / "out", **limits)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]


@pytest.mark.parametrize("member", ["../evil", "d/../../evil", "/evil", "..\\evil", "C:\\evil", "\\evil"])
def test_no_member_leaves_the_folder(tmp_path, name, member):
    check_refused(make(tmp_path / name, {**CONTENT, member: b"x"}), tmp_path, "outside the folder")
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("d/link")
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info)
    check_refused(path, tmp_path, "is a link or device")


def test_links_in_a_zip_are_refused(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as packed:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        packed.writestr(info, "/etc/passwd")
    check_refused(path, tmp_path, "is a link or device")


def test_the_size_is_limited(tmp_path, name):
    total = sum(map(len, CONTENT.values()))
    check_refused(make(tmp_path / name), tmp_path, "unpacks to more than", max_bytes=total - 1)
    assert members(extract_archive(tmp_path / name, tmp_path / "out", max_bytes=total)) == CONTENT


def test_a_zip_that_lies_about_its_size_is_refused(tmp_path):
    path = make_zip(tmp_path / "x.zip", {"a": b"0" * 100_000})
    data = path.read_bytes()
    honest = (100_000).to_bytes(4, "little")
    assert data.count(honest) == 2
    path.write_bytes(data.replace(honest, (10).to_bytes(4, "little")))
    check_refused(path, tmp_path, "damaged or cut short|more than", max_bytes=1000)


def test_the_number_of_members_is_limited(tmp_path, name):
    many = {f"f{i}": b"" for i in range(5)}
    check_refused(make(tmp_path / name, many), tmp_path, "more than 4 members", max_members=4)
    assert len(members(extract_archive(tmp_path / name, tmp_path / "out", max_members=5))) == 5


def test_a_truncated_archive_leaves_nothing(tmp_path, name):
    path = make(tmp_path / name, {"a": bytes(range(256)) * 100})
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    check_refused(path, tmp_path, "damaged or cut short")


def test_bytes_that_were_changed_are_noticed(tmp_path):
    path = make_zip(tmp_path / "x.zip", {"a": bytes(range(256))})
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(bytes(data))
    check_refused(path, tmp_path, "damaged or cut short")


def test_a_name_that_is_no_text_is_refused(tmp_path):
    path = make_zip(tmp_path / "x.zip", {"\u00e9": b"x"})
    path.write_bytes(path.read_bytes().replace("\u00e9".encode(), b"\xab\xab"))
    check_refused(path, tmp_path, "damaged or cut short")


def test_a_file_that_is_also_a_folder_is_refused(tmp_path, name):
    check_refused(make(tmp_path / name, {"a": b"x", "a/b": b"y"}), tmp_path, "cannot be unpacked")


def test_other_files_are_no_archives(tmp_path):
    path = tmp_path / "x.json.gz"
    path.write_bytes(b"x")
    assert not is_archive(path)
    check_refused(path, tmp_path, "not an archive that can be unpacked")
    with pytest.raises(DataError, match="There is no file"):
        extract_archive(tmp_path / "gone.zip", tmp_path / "out")


def test_nothing_is_overwritten(tmp_path, name):
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match="exists already"):
        extract_archive(make(tmp_path / name), tmp_path / "out")
