"""The folder of results: whole files only, one writer, and one clear error where it is damaged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recveil.core.errors import DataError, RecveilError, UsageError
from recveil.core.types import Estimate, Record
from recveil.studies.cell_results import CellFailure, CellTiming, StoredTarget
from recveil.studies.store import Store, create_store, describe_plan, open_store
from recveil.studies.study_result import build_study_result


@pytest.fixture
def store(tmp_path: Path, chores: ModuleType) -> Store:
    made = create_store(tmp_path / "deep" / "out")
    describe_plan(made, chores.plan())
    return made


def test_what_is_written_is_read(store: Store, chores: ModuleType) -> None:
    first, second = chores.plan().cells()[:2]
    store.write_failure(first, CellFailure(error="E"))
    store.write_failure(second, CellFailure(error="E", traceback="T", foreseen=True))
    assert store.failed_ids() == {first.id, second.id}
    result = chores.invent(first)
    store.write_cell(result, CellTiming(seconds={"all": 1.0}, engine="e"))
    again = open_store(store.folder)
    assert (again.finished_ids(), again.failed_ids()) == ({first.id}, {second.id})  # success removes the failure
    assert again.read_cell(first.id).to_json() == result.to_json()
    assert again.read_failure(second.id) == CellFailure(error="E", traceback="T", foreseen=True)
    assert again.read_timing(first.id).seconds == {"all": 1.0}
    assert again.read_timing(second.id).seconds == {}
    assert [c.id for c in again.read_plan().cells()] == [c.id for c in chores.plan().cells()]


def test_only_one_run_at_a_time(store: Store) -> None:
    with store.hold_lock(), pytest.raises(UsageError, match="Another run"), Store(store.folder).hold_lock():
        pass
    with store.hold_lock():
        pass


def test_leftovers_of_a_killed_run_are_removed_and_nothing_else(store: Store, chores: ModuleType) -> None:
    cell = chores.plan().cells()[0]
    leftovers = [store.folder / "cells" / ".x.json.abc.json", store.folder / ".study.json.abc.json"]
    half_saved, foreign = store.folder / "releases" / ".half", store.folder / ".gitignore"
    for path in (*leftovers, foreign):
        path.write_text("{")
    half_saved.mkdir()
    (half_saved / "model.json").write_text("{")
    store.write_failure(cell, CellFailure(error="E"))
    (store.folder / "cells" / f"{cell.id}.json").write_text("{}")  # killed before the failure was removed
    assert (store.finished_ids(), store.failed_ids()) == ({cell.id}, set())
    with store.hold_lock():
        assert not any(path.exists() for path in (*leftovers, half_saved))
        assert foreign.exists()
        assert not list((store.folder / "failures").iterdir())


def test_folders_that_are_no_study_are_refused(tmp_path: Path, store: Store) -> None:
    with pytest.raises(UsageError, match="is not a folder of results: it has no study.json"):
        open_store(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(UsageError, match="holds other things than a study"):
        create_store(tmp_path / "mine")
    with pytest.raises(UsageError, match="it is a file"):
        create_store(tmp_path / "mine" / "thesis.txt")
    with create_store(tmp_path / "half").hold_lock():
        pass  # a run that was refused before its plan was written
    assert create_store(tmp_path / "half") == Store(tmp_path / "half")
    content = json.loads((store.folder / "study.json").read_text())
    (store.folder / "study.json").write_text(json.dumps({**content, "version": 99}))
    for use in (open_store, create_store):
        with pytest.raises(DataError, match="are of version 99 and this recveil reads version 1"):
            use(store.folder)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", "{}", '{"cell": 1}', "[" * 100_000, '{"error": 3, "seconds": {"a": "x"}}', "9" * 5_000],
)
def test_a_damaged_file_is_one_error_that_names_it(store: Store, text: str) -> None:
    for part, read in (("cells", store.read_cell), ("failures", store.read_failure)):
        (store.folder / part / "x.json").write_text(text)
        with pytest.raises(DataError, match=r"x\.json"):
            read("x")


@pytest.mark.thorough
@pytest.mark.parametrize("value", [None, True, "x", [], {}, -1, 1.5, {"value": 1}], ids=str)
def test_no_value_in_a_stored_cell_is_another_error(store: Store, chores: ModuleType, value: object) -> None:
    cell = chores.plan().cells()[0]
    record = Record("demo", "als", "none", "mlp", "gender", 0, "auc", Estimate(0.1, 0.0, 0.2, 5))
    audit = StoredTarget(folds=[0.1, 0.2], n=5, counts={"f": 5}, notes=["one"])
    result = replace(chores.invent(cell), records=[record])
    result = replace(
        result,
        details=result.details.model_copy(
            update={"base": result.attribute_details.ranks, "targets": {"gender": audit}}
        ),
    )
    store.write_cell(result, CellTiming())
    path = store.folder / "cells" / f"{cell.id}.json"
    content = json.loads(path.read_text())
    refused, places = 0, _list_places(content)
    for place in places:
        damaged = json.loads(json.dumps(content))
        holder = damaged
        for step in place[:-1]:
            holder = holder[step]
        holder[place[-1]] = value
        path.write_text(json.dumps(damaged))
        try:
            build_study_result(store).to_json()
        except RecveilError:
            refused += 1
    assert len(places) / 4 < refused < len(places)  # some values are allowed in some places


def _list_places(value: Any) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(key, *rest) for key, each in inside for rest in ((), *_list_places(each))]


def test_a_damaged_plan_or_timing_is_one_error_that_names_the_file(store: Store) -> None:
    (store.folder / "timings" / "x.json").write_text('{"seconds": {"all": null}}')
    with pytest.raises(DataError, match=r"timings/x\.json is damaged \(seconds\.all"):
        store.read_timing("x")
    for plan in (None, {}, {"title": "t", "kind": "other", "grid": {}}):
        content = {"version": 1, "name": "p", "size": "full", "plan": plan}
        (store.folder / "study.json").write_text(json.dumps(content))
        with pytest.raises(DataError, match=r"study\.json is damaged"):
            open_store(store.folder).read_plan()


def test_a_write_that_fails_leaves_the_old_file(
    store: Store, chores: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = chores.invent(chores.plan().cells()[0])
    store.write_cell(result, CellTiming())
    before = (store.folder / "cells" / f"{result.cell.id}.json").read_bytes()

    def fill_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fill_disk)
    with pytest.raises(OSError, match="No space left"):
        store.write_cell(result, CellTiming())
    monkeypatch.undo()
    assert (store.folder / "cells" / f"{result.cell.id}.json").read_bytes() == before
    assert len(list((store.folder / "timings").iterdir())) == 1
