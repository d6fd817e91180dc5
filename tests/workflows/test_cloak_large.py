"""Large tables: a sample is checked after the defense, and the result says what is left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError
from recveil.testing.worlds import make_planted_leak
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_large import cloak_large
from recveil.workflows.cloak_table import CloakRequest
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.inputs import InputFiles


@pytest.mark.thorough
@pytest.mark.parametrize(("strength", "passed"), [(1.0, True), (0.1, False)])
def test_the_self_check_is_run_on_a_sample(
    tmp_path: Path, quick: AuditProtocol, monkeypatch: pytest.MonkeyPatch, strength: float, passed: bool
) -> None:
    monkeypatch.setattr("recveil.streaming.audit_sample.count_needed_users", lambda *_: 200)  # to save time
    x, secret = make_planted_leak(600, 4, 2, 2.0, rng=np.random.default_rng(0))
    labels = np.array(secret.labels)[secret.codes]
    table = pa.table({"user_id": np.arange(600), "gender": labels, "embedding": list(x.astype(np.float32))})
    pq.write_table(table, tmp_path / "users.parquet")
    files = InputFiles(tmp_path / "users.parquet", None, stream=True)
    request = CloakRequest(tmp_path / "o.parquet", check=True)
    result = cloak_large(files, ["gender"], ChosenDefense("gaussian", {"strength": strength}), quick, request)
    assert result.self_check is not None
    assert result.self_check.passed == passed
    assert bool(result.self_check.sentence) != passed
    assert result.targets == {}
    assert any("the audit drew 400 of them" in warning for warning in result.warnings)


def test_a_table_that_cannot_be_checked_is_refused_before_it_is_written(tmp_path: Path, quick: AuditProtocol) -> None:
    table = {"user_id": np.arange(3), "gender": ["M", "M", "F"], "embedding": list(np.eye(3, dtype=np.float32))}
    pq.write_table(pa.table(table), tmp_path / "users.parquet")
    files, request = InputFiles(tmp_path / "users.parquet", None, stream=True), CloakRequest(tmp_path / "o", check=True)
    with pytest.raises(DataError, match="classes of"):
        cloak_large(files, ["gender"], ChosenDefense("gaussian"), quick, request)
    assert [path.name for path in tmp_path.iterdir()] == ["users.parquet"]
