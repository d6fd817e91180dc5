"""Results in MLflow and W&B, against the real packages, and what is sent to them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from documents import *  # noqa: F403
from recveil.core.errors import MissingExtra
from recveil.core.results import AuditResult, CloakResult, MembershipResult
from recveil.integrations import trackers
from recveil.integrations.trackers import clean_name, list_metrics, list_settings, log_to_mlflow, log_to_wandb


def test_headline_numbers_have_names_with_their_release_and_bound(
    audit_result: AuditResult, cloak_result: CloakResult, membership_result: MembershipResult
) -> None:
    advantage = audit_result.targets["gender"].headline.advantage
    metrics = list_metrics(audit_result)
    assert metrics["gender.advantage"] == advantage.value
    assert metrics["gender.advantage.low"] == advantage.low
    assert not [name for name in metrics if "logistic" in name]
    compared = list_metrics(cloak_result)
    assert {"gender.before.advantage", "gender.after.advantage", "difference.ndcg_10"} <= set(compared)
    assert [name for name in list_metrics(membership_result) if name.endswith(".auc")]
    assert list_settings(audit_result)["verdict.gender"] == "leak"
    assert list_settings(cloak_result)["defense"] == cloak_result.defense.name


def test_names_from_the_data_are_cleaned() -> None:
    assert clean_name("gender & <b>age</b>/x") == "gender _ _b_age__b__x"


def test_a_missing_package_is_named(audit_result: AuditResult, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(trackers, "import_module", refuse)
    with pytest.raises(MissingExtra, match="pip install mlflow"):
        log_to_mlflow(audit_result, tracking_uri="file:x")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_keeps_numbers_verdicts_and_documents(
    audit_result: AuditResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "runs").as_uri()
    run_id = log_to_mlflow(audit_result, tracking_uri=uri)
    assert log_to_mlflow(audit_result, tracking_uri=uri, run_id=run_id, report=False) == run_id
    client = mlflow.MlflowClient(tracking_uri=uri)
    run = client.get_run(run_id)
    assert run.data.metrics["gender.advantage"] == audit_result.targets["gender"].headline.advantage.value
    assert run.data.tags["recveil.verdict.gender"] == "leak"
    assert {artifact.path for artifact in client.list_artifacts(run_id, "recveil")} == {
        "recveil/report.html",
        "recveil/result.json",
    }
    path = client.download_artifacts(run_id, "recveil/result.json", str(tmp_path))
    assert AuditResult.read_json(path) == audit_result


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wandb_writes_the_numbers_to_a_folder(
    audit_result: AuditResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run_id = log_to_wandb(audit_result, folder=tmp_path, report=False)
    (kept,) = tmp_path.glob(f"wandb/offline-run-*-{run_id}")
    deadline = time.monotonic() + 30  # a process of its own writes the file after the run has ended
    while b"gender.advantage" not in next(kept.glob("*.wandb")).read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.2)
