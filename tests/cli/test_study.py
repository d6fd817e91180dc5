"""`recveil study` as people meet it: run, show, diff, exit codes, one sentence for what is wrong."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from recveil.cli.app import app
from recveil.cli.study import _format_seconds, _make_progress_printer
from recveil.core.random import make_generator
from recveil.data.synthetic import make_world
from recveil.studies.engines import local
from recveil.studies.runs import Tally

PLAN = """
title = "A small study"
kind = "attribute"
[grid]
data = ["tiny"]
model = [{ name = "bprmf", epochs = 1, embedding_size = 4 }]
defense = ["none", "ldp"]
target = ["gender"]
panel = ["logistic"]
leak_ratio = [0.5]
seed = [0, 1]
[settings]
device = "cpu"
folds = 2
[smoke]
seed = [0]
defense = ["none"]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a plan and the data that it names; cells are run without processes."""
    world = make_world(n_users=60, n_items=40, n_interactions=900, leaks={"gender": 3.0}, rng=make_generator(0, "w"))
    data, folder = world.dataset, tmp_path / "tiny"
    folder.mkdir()
    interactions = {"user_id": data.user, "item_id": data.item, "timestamp": data.time}
    pyarrow.parquet.write_table(pa.table(interactions), folder / "interactions.parquet")
    gender = ["FM"[code] for code in data.attributes["gender"].codes]
    pyarrow.parquet.write_table(pa.table({"user_id": data.user_ids, "gender": gender}), folder / "users.parquet")
    monkeypatch.setenv("RECVEIL_DATA", str(tmp_path))
    (tmp_path / "plan.toml").write_text(PLAN)

    def run_inline(work: Any, cells: Any, *, workers: int, group: Any, may_start: Any) -> Any:
        yield from ((cell, work(cell)) for cell in cells if may_start())

    monkeypatch.setattr(local, "run_items", run_inline)
    return tmp_path


def run(*args: object, cwd: Path) -> Result:
    with contextlib.chdir(cwd):
        result = CliRunner().invoke(app, ["study", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.mark.thorough
def test_run_show_and_diff(place: Path) -> None:
    done = run("run", "plan.toml", "--out", "a", cwd=place)
    assert done.exit_code == 0, done.stderr
    assert "4 of 4 cells are done. Results: a" in done.stdout
    assert "4 of 4 cells" in done.stderr
    again = json.loads(run("run", "plan.toml", "--out", "a", "--json", cwd=place).stdout)
    assert again == {"cells": 4, "done": 4, "failed": 0, "left": 0, "plan": "plan", "size": "full", "folder": "a"}
    shown = run("show", "a", cwd=place)
    assert "A small study (full): 4 cells, 4 done" in shown.stdout
    assert "tiny  bprmf (embedding_size 4, epochs 1)  ldp      2     0       0" in shown.stdout
    assert json.loads(run("show", "plan.toml", "--out", "a", "--json", cwd=place).stdout)["done"] == 4
    (place / "other.toml").write_text(
        PLAN.replace("epochs = 1", 'epochs = 2, label = "bprmf (embedding_size 4, epochs 1)"')
    )
    assert run("run", "other.toml", "--out", "b", "-q", cwd=place).exit_code == 0
    compared = run("diff", "a", "b", cwd=place)
    assert "4 cells in both, 0 of them equal" in compared.stdout
    assert "ndcg@10" in compared.stdout
    assert json.loads(run("diff", "a", "a", "--json", cwd=place).stdout)["equal"] == 4


def test_smoke_goes_into_a_folder_of_its_own(place: Path) -> None:
    before = json.loads(run("show", "plan.toml", "--size", "smoke", "--json", cwd=place).stdout)
    assert (before["cells"], before["missing"]) == (1, 1)
    assert run("run", "plan.toml", "--size", "smoke", "-q", cwd=place).exit_code == 0
    assert (place / "studies" / "plan-smoke" / "study.json").is_file()
    assert json.loads(run("show", "plan.toml", "--size", "smoke", "--json", cwd=place).stdout)["done"] == 1
    assert json.loads(run("show", "plan.toml", "--json", cwd=place).stdout)["missing"] == 4


def test_a_limit_leaves_cells_for_the_next_run(place: Path) -> None:
    done = run("run", "plan.toml", "--out", "a", "--limit", "0", cwd=place)
    assert done.exit_code == 0
    assert "0 of 4 cells are done, 4 left: run again to go on." in done.stdout


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (("bprmf", "bprfm"), 2, "No model is called 'bprfm'. Did you mean 'bprmf'?"),
        (('"gender"', '"height"'), 2, "No attribute in tiny is called 'height'."),
        (("seed = [0, 1]", "seed = []"), 2, "comes to no cells: seed is an empty list"),
        (("panel =", "pannel ="), 2, "No key of [grid] in the plan plan is called 'pannel'. Did you mean 'panel'?"),
        (('["tiny"]', '["no/where.csv"]'), 3, "no/where.csv"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_runs(
    place: Path, change: tuple[str, str], code: int, message: str
) -> None:
    (place / "plan.toml").write_text(PLAN.replace(*change))
    done = run("run", "plan.toml", "--out", "a", cwd=place)
    assert done.exit_code == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list((place / "a").rglob("*.json")) if (place / "a").exists() else True


def test_other_folders_engines_and_sizes(place: Path) -> None:
    for args, message in (
        (("run", "none.toml"), "Cannot read the plan none.toml"),
        (("run", "plan.toml", "--engine", "rai"), "No engine is called 'rai'. Did you mean 'ray'?"),
        (("run", "plan.toml", "--size", "smok"), "No size is called 'smok'. Did you mean 'smoke'?"),
        (("show", "tiny"), "tiny is not a folder of results"),
        (("diff", "tiny", "tiny"), "tiny is not a folder of results"),
    ):
        done = run(*args, cwd=place)
        assert done.exit_code == 2
        assert message in done.stderr
    run("run", "plan.toml", "--out", "a", "--limit", "0", cwd=place)
    (place / "a" / "study.json").write_text('{"version": 0}')
    done = run("run", "plan.toml", "--out", "a", cwd=place)
    assert done.exit_code == 3
    assert "are of version 0" in done.stderr


def test_failed_cells_decide_the_exit_code(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "plan.toml").write_text(PLAN.replace('"none", "ldp"', '"none"').replace("bprmf", "itemknn"))
    text = (place / "plan.toml").read_text().replace(", epochs = 1, embedding_size = 4", "")
    (place / "plan.toml").write_text(text)
    done = run("run", "plan.toml", "--out", "a", cwd=place)  # it has no user vectors to attack
    assert done.exit_code == 3, done.stderr
    assert "2 of 2 cells failed; their errors are in a/failures." in done.stderr
    assert "failed  " in run("show", "a", cwd=place).stdout

    def raise_fault(*_: object) -> None:
        raise ZeroDivisionError("x")

    monkeypatch.setattr("recveil.studies.measurement.run_cell", raise_fault)
    done = run("run", "plan.toml", "--out", "a", cwd=place)
    assert done.exit_code == 70
    assert "a fault of recveil" in done.stderr


def test_a_full_disk_is_one_sentence(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "a/cells/x.json")

    monkeypatch.setattr("recveil.studies.store.Store.write_cell", fill_disk)
    done = run("run", "plan.toml", "--out", "a", "-q", cwd=place)
    assert done.exit_code == 3
    assert done.stderr == "recveil: The system refused a/cells/x.json: No space left on device.\n"


def test_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recveil.cli.study.PROGRESS_SECONDS", 0.0)
    tally = Tally(10, done=4, failed=1)
    tally.started -= 100
    _make_progress_printer(quiet=False)(tally)
    assert capsys.readouterr().err == "recveil: 4 of 10 cells, 1 failed, about 2 min left\n"
    _make_progress_printer(quiet=True)(tally)
    assert capsys.readouterr().err == ""
    assert [_format_seconds(s) for s in (5, 600, 7200)] == ["5 s", "10 min", "2.0 h"]
