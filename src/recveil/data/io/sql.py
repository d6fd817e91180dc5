"""Tables from databases: one SELECT against a DuckDB file or a PostgreSQL server, opened read-only.

    duckdb:users.db?query=SELECT user_id, embedding, gender FROM users
    postgres://reader@host:5432/shop?query=SELECT id AS user_id, vector::real[] AS embedding FROM users

PostgreSQL is reached by psycopg, in a transaction that is read-only on the server, through a cursor that only takes a
query. The scanner of DuckDB would be downloaded when it is used, so it is not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from recveil.core.errors import DataError, UsageError
from recveil.core.extras import import_extra

__all__ = ["write_query"]

FETCH_ROWS = 50_000
"""Rows that are fetched from a server at once."""


def write_query(address: str, path: Path) -> Path:
    """Run the query of an address and write its rows as Parquet; return the path.

    Raises:
        UsageError: there is no query, or it is no single SELECT.
        DataError: the database cannot be opened, or refuses the query.
    """
    place, mark, query = address.partition("?query=")
    if not mark or not query.strip():
        example = "duckdb:users.db?query=SELECT user_id, embedding FROM t"
        raise UsageError(f"{place} has no query. Write it as in {example}")
    table = _query_duckdb(place, query) if place.startswith("duckdb:") else _query_postgres(place, query)
    if not table.num_rows:
        raise DataError(f"The query of {place} returned no rows. Check it.")
    pyarrow.parquet.write_table(table, path)
    return path


def _query_duckdb(place: str, query: str) -> pa.Table:
    duckdb = import_extra("duckdb", "sql", f"read {place}")
    file = Path(place.removeprefix("duckdb:"))
    if not file.is_file():
        raise DataError(f"There is no file {file}. Check the path.")
    # The query sees this file alone: no other files, no network, no settings.
    closed = {"enable_external_access": "false", "lock_configuration": "true"}
    try:
        with duckdb.connect(str(file), read_only=True, config=closed) as database:
            statements = database.extract_statements(query)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise _refuse_statement()
            return database.sql(query).to_arrow_table()
    except duckdb.Error as error:
        raise _explain_refusal(place, error) from None


def _query_postgres(place: str, query: str) -> pa.Table:
    psycopg = import_extra("psycopg", "sql", f"read {place}")
    target = place if "://" in place else place.split(":", 1)[1]
    try:
        with psycopg.connect(target, options="-c default_transaction_read_only=on", connect_timeout=10) as connection:
            connection.read_only = True
            # A named cursor is declared FOR the query, so that the server takes nothing but a single query.
            with connection.cursor(name="recveil") as cursor:
                cursor.itersize = FETCH_ROWS
                cursor.execute(query.strip().rstrip(";"), binary=False)
                names = [column.name for column in cursor.description]
                rows = cursor.fetchall()
    except psycopg.errors.SyntaxError as error:
        raise UsageError(f"{_describe_refusal(place, error)} A single SELECT is allowed.") from None
    except psycopg.Error as error:
        raise _explain_refusal(place, error) from None
    return _build_table(names, rows, place)


def _build_table(names: list[str], rows: list[tuple[Any, ...]], place: str) -> pa.Table:
    if len(set(names)) < len(names):
        raise DataError(f"The query of {place} names a column twice. Rename one of them by AS.")
    try:
        return pa.table({name: pa.array([row[j] for row in rows]) for j, name in enumerate(names)})
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"The query of {place} returns values of mixed types ({error}). Cast them to one.") from None


def _refuse_statement() -> UsageError:
    return UsageError("The query is no single SELECT, and nothing else is run on a database. Write one SELECT.")


def _explain_refusal(place: str, error: Exception) -> DataError:
    return DataError(f"{_describe_refusal(place, error)} Check the query and the address.")


def _describe_refusal(place: str, error: Exception) -> str:
    from recveil.data.io.addresses import redact_secrets

    reason = redact_secrets((str(error).splitlines() or [type(error).__name__])[0]).rstrip(".")
    return f"{place} cannot be queried ({reason[:300]})."
