"""POST /apply and GET /map."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

import recveil
from recveil.service.documents import ApplyAnswer, MapDocument
from service.tools import draw_users

Serve = Callable[..., TestClient]


def test_one_and_many_vectors_are_carried_as_the_library_carries_them(serve: Serve, maps: dict[str, Path]) -> None:
    client = serve(map_path=maps["gaussian"])
    x, codes = draw_users(40, seed=5)
    labels = np.array(["F", "M"])[codes].tolist()
    expected = recveil.load_map(maps["gaussian"]).transform(x, labels)
    for n in (1, 40):
        body = {"vectors": x[:n].tolist(), "labels": {"gender": labels[:n]}}
        answer = ApplyAnswer.model_validate(client.post("/apply", json=body).json())
        np.testing.assert_allclose(answer.vectors, expected[:n], atol=1e-5)
        assert answer.unprotected == {"gender": 0}
    text = client.get("/metrics").text
    assert 'recveil_vectors_total{protected="yes"} 41' in text
    assert 'recveil_requests_total{route="/apply",method="POST",status="200"} 2' in text


def test_the_map_says_what_it_needs(serve: Serve, maps: dict[str, Path]) -> None:
    document = MapDocument.model_validate(serve(map_path=maps["gaussian"]).get("/map").json())
    assert document.needs_labels
    assert document.attributes == {"gender": ["F", "M"]}
    assert document.dimensions == 4


def test_a_missing_label_is_an_error_and_null_a_warning(serve: Serve, maps: dict[str, Path]) -> None:
    client = serve(map_path=maps["gaussian"])
    missing = client.post("/apply", json={"vectors": [[0, 0, 0, 0]]})
    assert missing.status_code == 422
    assert "needs the class of each user" in missing.json()["error"]
    null = client.post("/apply", json={"vectors": [[0, 0, 0, 0]], "labels": {"gender": [None]}}).json()
    assert null["unprotected"] == {"gender": 1}
    assert "stay unprotected" in null["notes"][0]


MALFORMED = [
    b"", b"{", b"[]", b"null", b'{"vectors": []}', b'{"vectors": [[]]}', b'{"vectors": [[1, 2], [3]]}',
    b'{"vectors": [[NaN, 1, 1, 1]]}', b'{"vectors": [[1e999, 1, 1, 1]]}', b'{"vectors": [[1e39, 1, 1, 1]]}',
    b'{"vectors": [["a", 1, 1, 1]]}', b'{"vectors": [[1, 1, 1, 1]], "labels": {"gender": "F"}}',
    b'{"vectors": [[1, 1, 1, 1]], "path": "/etc/passwd"}', b"\xff\xfe", b'{"vectors": ' + b"[" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_bodies_are_one_sentence(serve: Serve, maps: dict[str, Path], body: bytes) -> None:
    client = serve(map_path=maps["labelfree"])
    answer = client.post("/apply", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert list(answer.json()) == ["error"]


def test_other_content_types_and_a_service_without_a_map_say_what_to_do(serve: Serve, maps: dict[str, Path]) -> None:
    client = serve(map_path=maps["labelfree"])
    assert client.post("/apply", content=b"1,2", headers={"content-type": "text/csv"}).status_code == 415
    body = json.dumps({"vectors": [[0, 0, 0, 0]]}).encode()
    kind = {"content-type": "Application/JSON; charset=utf-8"}
    assert client.post("/apply", content=body, headers=kind).status_code == 200


def test_without_a_map_the_answer_says_how_to_name_one(client: TestClient) -> None:
    for answer in (client.get("/map"), client.post("/apply", json={"vectors": [[1]]})):
        assert answer.status_code == 404
        assert "--map" in answer.json()["error"]
