"""The page and its resources: no outside request, and the numbers of the service."""

from __future__ import annotations

import re

from fastapi.testclient import TestClient

from service.tools import make_table, upload


def test_the_page_names_no_other_host_and_runs_no_inline_script(client: TestClient) -> None:
    page = client.get("/").text
    for text in (page, client.get("/page.js").text, client.get("/page.css").text):
        assert not [a for a in re.findall(r"https?://[^\s\"')]+", text) if a != "http://www.w3.org/2000/svg"]
    assert re.findall(r"<script(?! src=\"/page.js\")", page) == []
    assert " style=" not in page
    assert "innerHTML" not in client.get("/page.js").text
    assert "sandbox></iframe>" in page


def test_every_field_of_the_page_has_a_label_and_every_id_of_the_script_exists(client: TestClient) -> None:
    page, script = client.get("/").text, client.get("/page.js").text
    fields = re.findall(r"<(?:input|select) id=\"([^\"]+)\"", page)
    assert len(fields) > 10
    assert [name for name in fields if f'for="{name}"' not in page] == []
    assert [name for name in re.findall(r"\$\(\"([^\"]+)\"\)", script) if f'id="{name}"' not in page] == []


def test_methods_come_from_the_registries(client: TestClient) -> None:
    methods = client.get("/methods").json()
    assert methods["defenses"][0] == "auto"
    assert "gaussian" in methods["defenses"]
    assert "fast" in methods["panels"]


def test_health_and_metrics_say_what_the_service_does(client: TestClient) -> None:
    assert client.get("/health").json()["status"] == "ok"
    client.post("/tables", files=upload(make_table()))
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'recveil_requests_total{route="/tables",method="POST",status="201"} 1' in answer.text
    assert 'recveil_jobs{state="running"} 0' in answer.text
