"""Settings: tokens, hosts and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from recveil.core.errors import DataError, UsageError
from recveil.service.settings import TOKEN_VARIABLE, ServiceSettings, is_loopback, prepare_folder, read_token

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(("host", "expected"), [
    ("127.0.0.1", True), ("::1", True), ("localhost", True), ("127.9.9.9", True), ("0.0.0.0", False), ("a.org", False),
])  # fmt: skip
def test_loopback_addresses_are_told_from_others(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="token"):
        ServiceSettings(folder=tmp_path, host="0.0.0.0")
    ServiceSettings(folder=tmp_path, host="0.0.0.0", token=TOKEN)


def test_the_token_is_read_from_a_file_before_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    assert read_token(path, {TOKEN_VARIABLE: "another-token-of-16"}) == TOKEN
    assert read_token(None, {TOKEN_VARIABLE: TOKEN}) == TOKEN
    assert read_token(None, {}) is None


@pytest.mark.parametrize("text", ["", "short", "has a space in it 123", "umlaut-ä-0123456789"])
def test_a_weak_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(UsageError, match="16 or more"):
        read_token(path)


def test_a_missing_token_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_token(tmp_path / "missing")


def test_the_folder_is_private_or_refused(tmp_path: Path) -> None:
    assert prepare_folder(tmp_path / "new").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path / "new")
    for name in ("open", "link"):
        with pytest.raises(UsageError, match="only you can read"):
            prepare_folder(tmp_path / name)


@pytest.mark.parametrize(("header", "expected"), [
    ("127.0.0.1:8000", True), ("localhost", True), ("[::1]:8000", True), ("LOCALHOST:1", True),
    ("evil.com", False), ("evil.com:8000", False), ("", False), ("127.0.0.1.evil.com", False),
])  # fmt: skip
def test_loopback_answers_only_to_its_own_names(tmp_path: Path, header: str, expected: bool) -> None:
    assert ServiceSettings(folder=tmp_path).is_allowed_host(header) is expected
    named = ServiceSettings(folder=tmp_path, allowed_hosts=("evil.com",))
    assert named.is_allowed_host("evil.com:8000")
    assert ServiceSettings(folder=tmp_path, host="0.0.0.0", token=TOKEN).is_allowed_host("any.example")
