import json

import pytest

from recveil.workflows.doctor import examine


def test_all_that_is_required_is_found_here() -> None:
    findings = examine()
    assert findings["ok"]
    assert {"recveil", "python", "torch", "device", "cache"} <= {row["name"] for row in findings["checks"]}
    json.dumps(findings, allow_nan=False)


def test_a_data_folder_that_is_not_there_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECVEIL_DATA", "/nowhere/at/all")
    row = next(r for r in examine()["checks"] if r["name"] == "RECVEIL_DATA")
    assert not row["ok"]
    assert "/nowhere/at/all" in row["advice"]
