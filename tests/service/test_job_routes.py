"""Routes of jobs: audits and cloaks from the upload to the download."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from recveil.core.results import AuditResult, CloakResult
from recveil.service.documents import JobDocument
from service.tools import InlineWorker, draw_users, make_table, upload, wait_for_job

QUICK = {"panel": "logistic", "repeats": "1", "target": "gender"}


class StuckWorker(InlineWorker):
    """A worker that never ends by itself."""

    def wait(self, timeout: float | None = None) -> int:
        import time

        while not self.arguments[0].endswith("killed"):
            time.sleep(0.01)
        return -9

    def kill(self) -> None:
        self.arguments = ["killed"]


@pytest.mark.thorough
def test_an_uploaded_table_is_audited_and_the_result_is_the_typed_document(client: TestClient, tmp_path: Path) -> None:
    answer = client.post("/audit", files=upload(make_table()), data=QUICK)
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/jobs/{answer.json()['id']}"
    job = wait_for_job(client, answer.json()["id"])
    assert job["state"] == "done", job["error"]
    document = JobDocument.model_validate(job)
    assert isinstance(document.result, AuditResult)
    assert document.result.verdict == "leak"
    assert document.result.input.name == "users.parquet"
    assert document.result.command_line[:2] == ["recveil", "audit"]
    report = client.get(f"/jobs/{job['id']}/report")
    assert "users.parquet" in report.text
    assert "sandbox" in report.headers["content-security-policy"]
    assert report.headers["x-frame-options"] == "SAMEORIGIN"
    assert client.get(f"/jobs/{job['id']}/table").status_code == 404
    assert not list((tmp_path / "service" / "jobs").rglob("*.parquet"))  # no copy of personal data is left
    assert client.get("/jobs").json()["jobs"][0]["findings"]["gender"]["verdict"] == "leak"
    assert client.delete(f"/jobs/{job['id']}").status_code == 204
    assert client.get(f"/jobs/{job['id']}").status_code == 404


@pytest.mark.thorough
def test_a_table_of_other_names_is_cloaked_and_comes_back_under_them(client: TestClient) -> None:
    table = client.post("/tables", files=upload(make_table(id="customer", vectors="v", undisclosed=0))).json()
    client.put(f"/tables/{table['id']}/columns", json={"id": "customer", "vectors": ["v"]})
    data = {"table_id": table["id"], "target": "gender", "method": "gaussian"}
    job = wait_for_job(client, client.post("/cloak", data=data).json()["id"])
    assert job["state"] == "done", job["error"]
    assert isinstance(JobDocument.model_validate(job).result, CloakResult)
    assert job["findings"]["gender"]["before"]["value"] > job["findings"]["gender"]["advantage"]["value"]
    assert job["cost"] > 0
    answer = client.get(f"/jobs/{job['id']}/table")
    assert answer.headers["content-disposition"] == 'attachment; filename="cloaked-users.parquet"'
    cloaked = pq.read_table(io.BytesIO(answer.content))
    assert cloaked.column_names == ["customer", "v"]
    assert np.abs(np.stack(cloaked["v"].to_numpy()) - draw_users()[0]).max() > 0.1
    assert "--id customer --vectors v" in job["command"]


def test_a_job_needs_one_table_and_sound_options(client: TestClient) -> None:
    table = client.post("/tables", files=upload(make_table())).json()["id"]
    both = client.post("/audit", files=upload(make_table()), data={"table_id": table})
    neither = client.post("/audit", data={"target": "gender"})
    options = [client.post("/cloak", data={"table_id": table, "strength": value}) for value in ("2", "nan", "x", "")]
    names = client.post("/audit", data={"table_id": table, "target": "x" * 500})
    assert [a.status_code for a in (both, neither, names, *options[:3])] == [422] * 6
    assert client.post("/audit", data={"table_id": "../" * 9}).status_code == 404


def test_a_failed_job_says_why(client: TestClient) -> None:
    answer = client.post("/audit", files=upload(make_table()), data={**QUICK, "target": "height"})
    job = wait_for_job(client, answer.json()["id"])
    assert job["state"] == "failed"
    assert "no column 'height'" in job["error"]
    assert client.get(f"/jobs/{job['id']}/report").status_code == 409


def test_more_jobs_than_the_limit_are_refused(serve: Callable[..., TestClient]) -> None:
    client = serve(launch=StuckWorker, max_jobs=2)
    answers = [client.post("/audit", files=upload(make_table()), data=QUICK) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202, 202, 429]
    assert answers[2].headers["retry-after"]
    assert len(client.get("/tables").json()["tables"]) == 2
    job, table = answers[0].json()["id"], answers[0].json()["table"]
    assert client.delete(f"/jobs/{job}").status_code == 409
    assert client.delete(f"/tables/{table}").status_code == 409
    assert client.put(f"/tables/{table}/columns", json={}).status_code == 409
