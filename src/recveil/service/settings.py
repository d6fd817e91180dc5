"""Settings of the service, checked before it starts."""

from __future__ import annotations

import ipaddress
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from recveil.core.errors import DataError, UsageError

__all__ = ["TOKEN_VARIABLE", "ServiceSettings", "is_loopback", "prepare_folder", "read_token"]

TOKEN_VARIABLE = "RECVEIL_TOKEN"  # nosec B105: the name of a variable
MIN_TOKEN_LETTERS = 16
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
DEFAULT_UPLOAD_MEBIBYTES = 256


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Rules of one service.

    Attributes:
        folder: private folder of tables and jobs.
        host: address that the service listens on.
        port: port that it listens on.
        token: secret that every request must carry; None for a service that only this machine reaches.
        map_path: saved map that `POST /apply` uses.
        max_upload_bytes: size of a request beyond which it is refused.
        max_jobs: jobs that wait or run at the same time.
        allowed_hosts: further names by which clients may address the service, such as that of a proxy.
    """

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    map_path: Path | None = None
    max_upload_bytes: int = DEFAULT_UPLOAD_MEBIBYTES << 20
    max_jobs: int = 8
    allowed_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and self.token is None:
            raise UsageError(
                f"`host` is {self.host}, which other machines can reach, and there is no token. Name a file with a "
                f"token by `token_file`, or set {TOKEN_VARIABLE}."
            )

    def is_allowed_host(self, header: str) -> bool:
        """Whether a request may address the service by this Host header.

        A page of another site whose name leads to this machine (DNS rebinding) sends its own name. Beyond loopback the
        token protects, so that any name is allowed unless some are named.
        """
        name = header.rsplit(":", 1)[0] if not header.endswith("]") else header
        if is_loopback(self.host):
            return name.lower() in (*LOCAL_NAMES, self.host, *self.allowed_hosts)
        return not self.allowed_hosts or name.lower() in (*LOCAL_NAMES, self.host, *self.allowed_hosts)


@cache
def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(path: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """Read the token from a file, or from the environment; None if there is neither.

    Raises:
        DataError: the file cannot be read.
        UsageError: the token is too short to be secret.
    """
    if path is not None:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"The token in {path} cannot be read ({error}). Name a text file.") from None
    elif TOKEN_VARIABLE in environment:
        token = environment[TOKEN_VARIABLE].strip()
    else:
        return None
    if len(token) < MIN_TOKEN_LETTERS or not token.isascii() or any(letter.isspace() for letter in token):
        raise UsageError(
            f"The token should be {MIN_TOKEN_LETTERS} or more ASCII letters without spaces. Make one by: "
            "openssl rand -hex 32"
        )
    return token


def prepare_folder(folder: Path) -> Path:
    """Make the folder of the jobs, closed to other users; refuse one that they can read.

    Raises:
        UsageError: the folder belongs to another user, or others can read it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise UsageError(f"`folder` {folder} is not a folder that only you can read. Name another, or use chmod 700.")
    return folder
