"""A sample of the campaign that `make campaign` runs whole: forty damaged inputs, each judged as all are."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from campaign import workers
from campaign.cases import Verdict, choose_door, run_case
from campaign.doors import DOORS
from campaign.judge import judge_command, list_files, list_replaced
from campaign.seeds import write_seeds
from campaign.worker import Ended

SEED = 1
N_CASES = 40
MADE_BY_RECVEIL = ("run", "study", "baseline.json", "map.safetensors", "gender.safetensors")
"""Seeds that take a command to make; their doors are left to the whole campaign."""
SLOW_COMMANDS = ("tune", "train", "membership")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign") / "seeds"
    folder.mkdir()
    write_seeds(folder)
    return folder


def list_quick_cases() -> list[int]:
    quick = {
        door.name
        for door in DOORS
        if door.command[0] not in SLOW_COMMANDS and not set(door.command) & set(MADE_BY_RECVEIL) and door.inputs
    }
    return [number for number in range(10 * N_CASES) if choose_door(number).name in quick][:N_CASES]


def test_damaged_inputs_are_refused_in_one_line_and_nothing_is_left(seeds: Path, tmp_path: Path) -> None:
    verdicts = [run_case(number, SEED, seeds, tmp_path / "case") for number in list_quick_cases()]
    offenders = [f"--case {v.number} {v.door}: {v.faults} {v.ended.stderr[-300:]}" for v in verdicts if v.faults]
    assert not offenders, "\n".join(offenders)
    assert len(verdicts) == N_CASES
    assert sum(verdict.ended.exit_code == 3 for verdict in verdicts) > N_CASES / 3  # damage is damage


def test_the_judge_finds_each_fault(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("a")
    before = list_files(tmp_path)

    def judge(code: int, stderr: str, *, seconds: float = 1.0) -> list[str]:
        return judge_command(Ended(code, "", stderr, seconds), before, list_files(tmp_path), keeps_folder=False)

    assert judge(3, "recveil: No.\n") == []
    assert judge(0, "") == []
    assert judge(70, "recveil: Internal error.\n") == ["exit 70"]
    assert judge(3, "recveil: No.\nrecveil: No.\n") == ["several lines for an error"]
    assert judge(2, "") == ["no lines for an error"]
    assert judge(0, "x.py:1: RuntimeWarning: overflow\n") == ["lines of a library"]
    assert judge(3, "recveil: \x1b[31m.\n") == ["control characters"]
    assert judge(0, "", seconds=61.0) == ["slow"]
    assert "traceback" in judge(3, "Traceback (most recent call last):\n")
    (tmp_path / "half").write_text("a")
    assert judge(3, "recveil: No.\n") == ["output left after a failure"]
    (tmp_path / ".half").write_text("a")
    assert judge(0, "") == ["hidden file left"]
    assert judge(3, "recveil: Full. Only .half remains.\n") == ["output left after a failure"]
    (tmp_path / "input").write_text("b")
    assert "input changed" in judge(0, "")


def test_only_a_file_that_is_written_and_not_read_may_be_replaced() -> None:
    assert list_replaced(["audit", "--embeddings", "a.csv", "--out", "./b.json"]) == {"b.json"}
    assert list_replaced(["audit", "--embeddings", "a.csv", "--out", "a.csv"]) == set()
    assert list_replaced(["audit", "--embeddings", "a.csv"]) == set()


def test_every_case_is_given_to_a_worker_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Workers that answer at once stand in for processes."""

    class Stub:
        def __init__(self, number: int) -> None:
            self.number, self.is_overdue = number, True
            self.pipe, other = multiprocessing.Pipe()
            other.close()

        def read_verdict(self) -> Verdict:
            return Verdict(self.number, "", [], Ended(0, "", "", 0.0), [])

        def give_case(self, number: int) -> None:
            self.number = number

        def end(self) -> None:
            self.pipe.close()

    monkeypatch.setattr(workers, "_start_worker", lambda number, place: Stub(number))
    for count in (1, 3, 20):
        verdicts = workers.run_numbers(range(10), workers.Place(0, tmp_path, tmp_path), workers=count)
        assert sorted(verdict.number for verdict in verdicts) == list(range(10))
