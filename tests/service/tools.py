"""What the tests of the service share: small tables, uploads, a saved map, workers in this process."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fastapi.testclient import TestClient

from recveil.core.result_parts import InputSummary
from recveil.core.types import Attribute
from recveil.service.job_worker import run_folders
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.map_saving import save_fitted_map

ADDRESS = "http://127.0.0.1:8000"
N_USERS = 160


class InlineWorker:
    """A worker that runs in this process, when it is waited for."""

    pid = 0

    def __init__(self, arguments: list[str]) -> None:
        self.arguments = arguments

    def wait(self, timeout: float | None = None) -> int:
        return run_folders([Path(argument) for argument in self.arguments])

    def kill(self) -> None:
        pass


def draw_users(n: int = N_USERS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=n)
    return (rng.standard_normal((n, 4)) + 2 * np.eye(2, 4)[codes]).astype(np.float32), codes


def make_table(n: int = N_USERS, **names: Any) -> bytes:
    """Return a Parquet file of vectors and genders; `id` and `vectors` rename its columns."""
    x, codes = draw_users(n)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 4)
    gender = np.array(["F", "M"], dtype=object)[codes]
    gender[: names.get("undisclosed", 5)] = None
    columns = {names.get("id", "user_id"): np.arange(n), names.get("vectors", "embedding"): lists, "gender": gender}
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def upload(content: bytes, name: str = "users.parquet", part: str = "table") -> dict[str, Any]:
    return {part: (name, content, "application/octet-stream")}


def save_map(path: Path, method: str) -> Path:
    x, codes = draw_users(400)
    table = ClearTable(InputSummary(name="E", n_users=400, d=4), x, [Attribute("gender", codes, ("F", "M"))])
    protocol = AuditProtocol(device="cpu")
    save_fitted_map(path, table, cloak_table(table, ChosenDefense(method), protocol, audit=False)[1], protocol)
    return path


def wait_for_job(client: TestClient, job_id: str, seconds: float = 400) -> dict[str, Any]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job: dict[str, Any] = client.get(f"/jobs/{job_id}").json()
        if job["state"] in ("done", "failed"):
            return job
        time.sleep(0.1)
    raise AssertionError("the job does not end")
