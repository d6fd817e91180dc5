"""The guard: other hosts and sites, tokens, sizes, headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient

from recveil.service.guards import COOKIE_NAME, Sessions
from service.tools import make_table, upload

TOKEN = "a-token-of-many-letters"


def test_a_request_that_names_another_host_is_refused(client: TestClient) -> None:
    assert client.get("/jobs", headers={"host": "evil.example"}).status_code == 403
    assert client.get("/jobs", headers={"host": "localhost:8000"}).status_code == 200


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"origin": "null"},
    {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}])  # fmt: skip
def test_a_request_of_another_site_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post("/session", json={"token": "x"}, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.json()["error"]


def test_the_own_page_may_send(client: TestClient) -> None:
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert client.post("/session", json={"token": "x"}, headers=headers).status_code == 204


def test_without_the_token_nothing_but_the_empty_page_is_shown(serve: Callable[..., TestClient]) -> None:
    client = serve(token=TOKEN)
    assert [client.get(path).status_code for path in ("/", "/page.js", "/page.css", "/health")] == [200] * 4
    for path in ("/jobs", "/tables", "/metrics", "/openapi.json", "/map", "/nothing"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    for value in (f"Bearer {TOKEN}x", TOKEN, "Bearer", "Bearer ä".encode(), f"Basic {TOKEN}"):
        assert client.get("/jobs", headers={"authorization": value}).status_code == 401
    assert client.get("/jobs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_browser_exchanges_the_token_for_a_cookie(serve: Callable[..., TestClient]) -> None:
    client = serve(token=TOKEN)
    assert client.post("/session", json={"token": "wrong"}).status_code == 401
    assert client.get("/jobs").status_code == 401
    answer = client.post("/session", json={"token": TOKEN})
    cookie = answer.headers["set-cookie"].lower()
    assert answer.status_code == 204
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/jobs").status_code == 200
    client.cookies.set(COOKIE_NAME, "another")
    assert Sessions(TOKEN).cookie != Sessions(TOKEN).cookie


@pytest.mark.parametrize("cookie", ["", "recveil_session=", "recveil_session=x; =;;", "\x7f=1", 'a="\\'])
def test_no_cookie_but_ours_opens(cookie: str) -> None:
    assert not Sessions(TOKEN).accepts_request({"cookie": cookie})


def test_too_large_requests_are_refused_announced_or_not(serve: Callable[..., TestClient]) -> None:
    client = serve(max_upload_bytes=2_000)
    content = b"x" * 5_000
    announced = client.post("/tables", files=upload(content))

    def send_parts() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="table"; filename="a.csv"\r\n\r\n'
        yield content
        yield b"\r\n--b--\r\n"

    chunked = client.post("/tables", content=send_parts(), headers={"content-type": "multipart/form-data; boundary=b"})
    assert (announced.status_code, chunked.status_code) == (413, 413)
    assert "2,000 bytes" in chunked.json()["error"]
    assert client.get("/tables").json() == {"tables": []}


def test_every_answer_carries_the_headers(client: TestClient) -> None:
    for path in ("/", "/page.js", "/jobs", "/nothing"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "http" not in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"


def test_a_table_within_the_limit_is_taken(serve: Callable[..., TestClient]) -> None:
    assert serve(max_upload_bytes=100_000).post("/tables", files=upload(make_table())).status_code == 201
