"""Queries against a DuckDB file and a real PostgreSQL server: rows come back, and nothing can be changed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.data.io.sql import write_query
from recveil.data.io.vectors import Layout, read_embeddings

X = np.arange(12, dtype=np.float32).reshape(4, 3)
IDS = [30, 10, 40, 20]


@pytest.fixture
def database(tmp_path: Path) -> str:
    with duckdb.connect(str(tmp_path / "u.db")) as connection:
        connection.execute("CREATE TABLE users (id INTEGER, vec FLOAT[3], gender VARCHAR)")
        rows = [(i, x.tolist(), "F") for i, x in zip(IDS, X, strict=True)]
        connection.executemany("INSERT INTO users VALUES (?, ?, ?)", rows)
    return f"duckdb:{tmp_path / 'u.db'}"


def test_a_query_of_duckdb_is_a_table(database: str, tmp_path: Path) -> None:
    path = write_query(f"{database}?query=SELECT * FROM users;", tmp_path / "q.parquet")
    vectors = read_embeddings(path, layout=Layout(("vec",), "id"))
    assert vectors.ids.to_pylist() == IDS
    np.testing.assert_array_equal(vectors.x, X)
    with pytest.raises(DataError, match="no rows"):
        write_query(f"{database}?query=SELECT * FROM users WHERE id < 0", tmp_path / "q.parquet")


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE users",
        "INSERT INTO users SELECT * FROM users",
        "SELECT 1; DROP TABLE users",
        "COPY users TO 'stolen.csv'",
        "ATTACH 'other.db'",
        "SET enable_external_access = true",
        "SELECT * FROM read_text('/etc/hostname')",
        "PRAGMA database_list",
        "nonsense",
    ],
)
def test_anything_but_one_select_is_refused(database: str, tmp_path: Path, query: str) -> None:
    with pytest.raises((UsageError, DataError)) as caught:
        write_query(f"{database}?query={query}", tmp_path / "q.parquet")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "q.parquet").exists()
    assert write_query(f"{database}?query=SELECT * FROM users", tmp_path / "all.parquet").exists()


@pytest.mark.parametrize("address", ["duckdb:none.db?query=SELECT 1", "duckdb:none.db", "duckdb:none.db?query= "])
def test_addresses_without_a_file_or_a_query_are_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises((UsageError, DataError), match="There is no file|has no query"):
        write_query(address, tmp_path / "q.parquet")


def find_program(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(places[-1]) if places else shutil.which(name)


@pytest.fixture
def server() -> Iterator[str]:
    """Start PostgreSQL on loopback, as a user who is not root; yield the address of a database."""
    if find_program("initdb") is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="recveil-test-pg-"))
    identity: dict[str, object] = {}
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": folder, "env": {"HOME": "/"}}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    control = find_program("pg_ctl")
    initialize = [find_program("initdb"), "-D", str(folder / "data"), "-U", "owner", "-A", "trust", "-N", "-E", "UTF8"]
    subprocess.run(initialize, check=True, capture_output=True, **identity)
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c fsync=off"
    start = [control, "-D", str(folder / "data"), "-l", str(folder / "log"), "-w", "-o", options, "start"]
    subprocess.run(start, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **identity)
    try:
        yield f"postgres://owner@127.0.0.1:{port}/postgres"
    finally:
        stop = [control, "-D", str(folder / "data"), "-m", "immediate", "stop"]
        subprocess.run(stop, check=False, capture_output=True, **identity)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_a_query_of_postgresql_is_a_table_and_changes_nothing(server: str, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE TABLE users (id int, vec real[], shown text, gender text)")
        for i, x in zip(IDS, X.tolist(), strict=True):
            # pgvector sends its columns in the form of the third one.
            connection.execute("INSERT INTO users VALUES (%s, %s, %s, 'F')", (i, x, str(x).replace(" ", "")))
    for column in ("vec", "shown"):
        address = f"{server}?query=SELECT id AS user_id, {column} AS embedding, gender FROM users"
        vectors = read_embeddings(write_query(address, tmp_path / f"{column}.parquet"))
        assert vectors.ids.to_pylist() == IDS
        np.testing.assert_array_equal(vectors.x, X)
    for query in (
        "DROP TABLE users",
        "DELETE FROM users RETURNING id",
        "SELECT 1; DROP TABLE users",
        "SELECT 1; COMMIT; DROP TABLE users",
        "WITH gone AS (DELETE FROM users RETURNING id) SELECT * FROM gone",
        "SELECT set_config('transaction_read_only', 'off', false) FROM users; DELETE FROM users",
        "SELECT nextval('none')",
    ):
        with pytest.raises((UsageError, DataError)) as caught:
            write_query(f"{server}?query={query}", tmp_path / "bad.parquet")
        assert "\n" not in str(caught.value)
    with psycopg.connect(server) as connection:
        assert connection.execute("SELECT count(*) FROM users").fetchone() == (4,)
    with pytest.raises(DataError, match="cannot be queried"):
        write_query("postgres://owner@127.0.0.1:1/x?query=SELECT 1", tmp_path / "none.parquet")
