"""Files and tables at addresses: object stores, file systems and databases, copied to and from this machine.

`s3`, `gs` and `abfss` go through Arrow, `hf` and `memory` through fsspec, `duckdb` and `postgres` through `sql`.
Credentials come from the environment, as each service documents it; an address that holds a password is refused, and
errors leave secrets out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from recveil.core.errors import DataError, UsageError
from recveil.core.extras import import_extra

__all__ = ["SCHEMES", "check_output_address", "fetch_address", "is_address", "redact_secrets", "store_address"]

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hf", "memory", "file", "duckdb", "postgres", "postgresql")
SQL_SCHEMES = ("duckdb", "postgres", "postgresql")

_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)}):(.*)", re.DOTALL)
_SECRET_NAME = re.compile(r"SECRET|PASSWORD|PASSWD|TOKEN|ACCESS_KEY|ACCOUNT_KEY|CREDENTIAL|SAS", re.IGNORECASE)
_PASSWORD = re.compile(r"^[a-z0-9]+://[^/@?]*:[^/@?]*@|(^|[\s;:&?])password\s*=", re.IGNORECASE)
_S3_RETRIES = 3
MIN_SECRET_LETTERS = 6
"""Shorter values of the environment are no secrets that could be found in a sentence."""


def is_address(text: str) -> bool:
    """Tell whether a text is an address rather than a path on this machine."""
    match = _ADDRESS.fullmatch(text)
    return match is not None and (match.group(1) in SQL_SCHEMES or match.group(2).startswith("//"))


def fetch_address(address: str, folder: Path) -> Path:
    """Copy the file or folder at an address into a folder; return its path there.

    Args:
        address: the address; a query of a database is copied as a Parquet file.
        folder: an existing folder.

    Raises:
        DataError: there is nothing at the address, or it cannot be read.
        UsageError: the address cannot be used.
    """
    _refuse_password(address)
    scheme = address.split(":", 1)[0]
    if scheme in SQL_SCHEMES:
        from recveil.data.io.sql import write_query

        return write_query(address, folder / f"{scheme}.parquet")
    from pyarrow import fs

    with _explain_failure(address, "read"):
        system, place = _open_file_system(address)
        local = folder / (PurePosixPath(place).name or "table")
        kind = system.get_file_info(place).type
        if kind == fs.FileType.NotFound:
            raise DataError(f"There is nothing at {address}. Check the address and the credentials in the environment.")
        for source, target in _list_files(system, place, local, is_folder=kind == fs.FileType.Directory):
            target.parent.mkdir(parents=True, exist_ok=True)
            fs.copy_files(source, str(target), source_filesystem=system, destination_filesystem=fs.LocalFileSystem())
    return local


def _list_files(system: Any, place: str, local: Path, *, is_folder: bool) -> list[tuple[str, Path]]:
    """List what is copied, each file with its path on this machine."""
    from pyarrow import fs

    if not is_folder:
        return [(place, local)]
    entries = system.get_file_info(fs.FileSelector(place, recursive=True))
    files = [PurePosixPath(entry.path) for entry in entries if entry.type == fs.FileType.File]
    names = {str(file): file.relative_to(PurePosixPath(place)) for file in files}
    return [(file, local / name) for file, name in sorted(names.items()) if ".." not in name.parts]


def store_address(path: Path, address: str) -> None:
    """Copy a file or folder to an address; a file appears there whole.

    Raises:
        DataError: it cannot be written.
    """
    from pyarrow import fs

    with _explain_failure(address, "written"):
        system, place = _open_file_system(address)
        has_folders = address.split(":", 1)[0] in ("file", "memory")  # in object stores a folder is a part of the name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            target = PurePosixPath(place) / file.relative_to(path).as_posix()
            if file.is_dir():
                continue
            if has_folders:
                system.create_dir(str(target.parent), recursive=True)
            fs.copy_files(str(file), str(target), source_filesystem=fs.LocalFileSystem(), destination_filesystem=system)


def check_output_address(address: str) -> None:
    """Refuse an address that nothing can be written to, before the work."""
    _refuse_password(address)
    if address.split(":", 1)[0] in SQL_SCHEMES:
        raise UsageError("Databases are read and not written. Write a file, as in s3://bucket/safe.parquet.")
    with _explain_failure(address, "written"):
        _open_file_system(address)


def redact_secrets(text: str) -> str:
    """Return the text without the secrets of the environment."""
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= MIN_SECRET_LETTERS:
            text = text.replace(value, "***")
    return text


def _refuse_password(address: str) -> None:
    if _PASSWORD.search(address.split("?query=", 1)[0]):
        raise UsageError(
            "The address holds a password or key, which reports and logs would show. Put it into the environment, such "
            "as PGPASSWORD or AWS_SECRET_ACCESS_KEY."
        )


def _open_file_system(address: str) -> tuple[Any, str]:
    """Open the file system of an address; return it and the path in it."""
    from pyarrow import fs

    scheme, place = address.split("://", 1)
    if scheme == "s3":
        return _open_s3(), place
    if scheme in ("gs", "gcs"):
        return fs.GcsFileSystem(), place
    if scheme in ("abfs", "abfss"):
        opened: tuple[Any, str] = fs.FileSystem.from_uri(address)
        return opened
    if scheme == "file":
        return fs.LocalFileSystem(), place
    if scheme == "hf":
        system = import_extra("huggingface_hub", "cloud", f"reach {address}").HfFileSystem()
    else:
        system, place = import_extra("fsspec", "cloud", f"reach {address}").filesystem(scheme), f"/{place.lstrip('/')}"
    return fs.PyFileSystem(fs.FSSpecHandler(system)), place


def _open_s3() -> Any:
    """Open S3, or the server that AWS_ENDPOINT_URL names, in the region of the environment."""
    from pyarrow import fs

    retries = fs.AwsStandardS3RetryStrategy(max_attempts=_S3_RETRIES)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    options: dict[str, str] = {"region": region} if region else {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        options |= {"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"}
    return fs.S3FileSystem(retry_strategy=retries, **options)


@contextmanager
def _explain_failure(address: str, verb: str) -> Iterator[None]:
    try:
        yield
    except (DataError, UsageError):
        raise
    except (OSError, pa.ArrowException, ValueError, RuntimeError) as error:
        reason = redact_secrets((str(error).splitlines() or [type(error).__name__])[0]).rstrip(".")
        raise DataError(f"{address} cannot be {verb} ({reason[:300]}). Check address and credentials.") from None
