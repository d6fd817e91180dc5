"""Routes of tables: uploads, columns, removal; names of requests touch no path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from recveil.service.documents import TableDocument
from recveil.service.job_queue import start_worker
from service.tools import make_table, upload


def test_an_upload_is_understood_listed_and_removed(client: TestClient) -> None:
    answer = client.post("/tables", files=upload(make_table()))
    document = TableDocument.model_validate(answer.json())
    assert answer.status_code == 201
    assert document.overview.n_users == 160
    assert client.get(f"/tables/{document.id}").json() == answer.json()
    assert [table["id"] for table in client.get("/tables").json()["tables"]] == [document.id]
    assert client.delete(f"/tables/{document.id}").status_code == 204
    assert client.get(f"/tables/{document.id}").status_code == 404


def test_columns_are_chosen_after_the_upload(client: TestClient) -> None:
    table = client.post("/tables", files=upload(make_table(id="customer", vectors="v"))).json()
    assert "users.parquet has no column 'user_id'" in table["overview"]["problem"]
    address = f"/tables/{table['id']}/columns"
    chosen = client.put(address, json={"id": "customer", "vectors": ["v"]}).json()
    assert chosen["overview"]["problem"] is None
    assert client.get(f"/tables/{table['id']}").json()["columns"]["id"] == "customer"
    assert "no column 'x'" in client.put(address, json={"id": "x"}).json()["overview"]["problem"]


NAMES = [
    "../../escape.parquet",
    "/etc/cron.d/x.parquet",
    "a/../../b.csv",
    "..\\..\\c.parquet",
    ".parquet",
    "\u202e<b>.csv",
]


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_an_upload_is_a_label_and_no_path(client: TestClient, tmp_path: Path, name: str) -> None:
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    document = client.post("/tables", files=upload(make_table(), name)).json()
    new = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert {path.parent for path in new} == {tmp_path / "service" / "tables" / document["id"]}
    assert {path.name.split(".")[0] for path in new} <= {"table", "record", "overview"}
    assert not set(document["label"]) & set("/\\<>\u202e")


@pytest.mark.parametrize("identifier", ["%2e%2e%2e", "..%2f..%2fetc", "a" * 5_000, "0" * 32, "%00", "*"])
def test_unknown_ids_are_not_found(client: TestClient, identifier: str) -> None:
    for answer in (client.get(f"/tables/{identifier}"), client.get(f"/jobs/{identifier}/report")):
        assert answer.status_code == 404
        assert list(answer.json()) == ["error"]


def test_uploads_that_cannot_be_taken_leave_nothing(client: TestClient, tmp_path: Path) -> None:
    answers = [
        client.post("/tables", files=upload(b"x", "model.pkl")),
        client.post("/tables", data={"table": "text"}),
        client.post("/tables", files={"other": b"x"}),
        client.post("/tables", json={}),
        client.post("/tables", files={**upload(make_table()), **upload(b"x", "a.exe", "attributes")}),
    ]
    assert {answer.status_code for answer in answers} == {422}
    assert list((tmp_path / "service" / "tables").iterdir()) == []


@pytest.mark.thorough
def test_a_table_is_read_by_a_process_of_its_own(serve: Callable[..., TestClient]) -> None:
    client = serve(launch=start_worker)
    assert client.post("/tables", files=upload(make_table())).json()["overview"]["n_users"] == 160
