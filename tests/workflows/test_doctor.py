import pytest

from recveil.workflows.doctor import MachineReport, examine_machine


def test_all_that_is_required_is_found_here() -> None:
    report = examine_machine()
    assert report.ok
    assert {"recveil", "python", "torch", "device", "cache"} <= {check.name for check in report.checks}
    assert MachineReport.model_validate_json(report.model_dump_json()) == report


def test_a_data_folder_that_is_not_there_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECVEIL_DATA", "/nowhere/at/all")
    [check] = [check for check in examine_machine().checks if check.name == "RECVEIL_DATA"]
    assert not check.ok
    assert "/nowhere/at/all" in check.advice
