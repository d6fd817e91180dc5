"""The whole application: a thousand malformed requests without a 500, and its own OpenAPI description."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from recveil.service.documents import ARROW_FILE, ARROW_STREAM, PARQUET, ErrorDocument
from service.tools import make_table

N_REQUESTS = 1_000
PATHS = ("/", "/apply", "/audit", "/cloak", "/tables", "/jobs", "/map", "/session", "/health", "/metrics", "/nothing",
         "/tables/{id}", "/tables/{id}/columns", "/jobs/{id}", "/jobs/{id}/report", "/jobs/{id}/table")  # fmt: skip
METHODS = ("GET", "POST", "POST", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE")
TYPES = ("application/json", "multipart/form-data", "multipart/form-data; boundary=b", "text/plain", "", PARQUET,
         "application/x-www-form-urlencoded", ARROW_STREAM, ARROW_FILE, "application/json; charset=utf-16")  # fmt: skip
IDS = ("0" * 32, "..", "%00", "a" * 3_000, "%ff%fe", "*", "\u202e")
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    1e308,
    "",
    "x" * 2_000,
    [],
    {},
    [[]],
    [[1, 2, 3, 4]],
    {"a": {"b": []}},
    "\x00",
)
KEYS = ("vectors", "labels", "allow_drift", "token", "id", "row_numbers", "target", "table_id", "strength", "\u202e")


def draw_body(rng: np.random.Generator) -> bytes:
    kind = rng.integers(5)
    if kind == 0:
        return rng.bytes(int(rng.integers(200)))
    if kind == 1:
        whole = make_table(20)
        return whole[: int(rng.integers(len(whole)))]
    keys = rng.choice(len(KEYS), size=3)
    document = {KEYS[key]: VALUES[rng.integers(len(VALUES))] for key in keys}
    text = json.dumps(document).encode()
    if kind == 2:
        return text
    if kind == 3:
        return text[: int(rng.integers(len(text)))] + b"\xff"
    parts = "".join(f'--b\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in document.items())
    name = '--b\r\nContent-Disposition: form-data; name="table"; filename="../../x.csv"\r\n\r\nuser_id\n\r\n'
    return (parts + name + "--b--\r\n"[: int(rng.integers(8))]).encode("utf-8", "replace")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Starlette leaves parts of cut forms
def test_a_thousand_malformed_requests_give_sentences_and_no_500(
    serve: Callable[..., TestClient], maps: dict[str, Path]
) -> None:
    client = serve(map_path=maps["labelfree"], max_jobs=2)  # an error of ours would be raised here
    rng, statuses = np.random.default_rng(0), Counter[int]()
    for number in range(N_REQUESTS):
        path = PATHS[rng.integers(len(PATHS))].replace("{id}", IDS[rng.integers(len(IDS))])
        method, kind = METHODS[rng.integers(len(METHODS))], TYPES[rng.integers(len(TYPES))]
        body = draw_body(rng) if method in ("POST", "PUT", "PATCH") else b""
        answer = client.request(method, path, content=body, headers={"content-type": kind} if kind else {})
        statuses[answer.status_code] += 1
        place = f"{number}: {method} {path[:60]} {kind} {body[:80]!r} {answer.status_code}"
        assert answer.status_code < 500, place
        if answer.status_code >= 400 and method != "HEAD":
            assert ErrorDocument.model_validate_json(answer.content).error.endswith("."), place
    assert statuses[422] > 50
    assert sum(statuses[code] for code in range(400, 500)) > N_REQUESTS / 2


def test_the_description_holds_the_result_documents(client: TestClient) -> None:
    description = client.get("/openapi.json").json()
    schemas = description["components"]["schemas"]
    assert {"AuditResult", "CloakResult", "JobDocument", "ErrorDocument"} <= set(schemas)
    assert "HTTPValidationError" not in schemas
    answers = description["paths"]["/apply"]["post"]["responses"]
    assert {"200", "401", "413", "415", "422"} <= set(answers)
    assert client.get("/docs").status_code == 404  # it would load scripts from other hosts


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of schemathesis are not ours
def test_the_service_keeps_its_own_description(live_service: Callable[..., str], maps: dict[str, Path]) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    address = live_service(map_path=maps["labelfree"], max_jobs=2)
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json", wait_for_schema=30)
    chosen = [not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
              checks.response_schema_conformance]  # fmt: skip
    operations = [found.ok() for found in schema.get_all_operations()]
    for operation in operations:
        for mode in schemathesis.GenerationMode:

            @settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def check_case(case: Any) -> None:
                case.call_and_validate(checks=chosen)

            try:
                check_case()
            except Unsatisfiable:  # an operation that takes nothing cannot be asked wrongly
                assert mode is schemathesis.GenerationMode.NEGATIVE
    assert len(operations) > 12
