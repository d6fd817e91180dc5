"""A folder of results: one file for each finished cell, written whole or not at all.

study.json          version of the format, the plan as it was read, its size
cells/<id>.json     cell, records, details: equal bytes from run to run
timings/<id>.json   seconds by step, machine and engine: these cannot be equal
failures/<id>.json  cell, error, traceback; tried again on the next run
releases/           trained models, by hash
lock                held while a run writes here
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from recveil.core.errors import DataError, UsageError
from recveil.core.files import check_output_folder, write_atomically
from recveil.core.json_files import describe_mistake, read_json_object
from recveil.studies.cell_results import CellFailure, CellResult, CellTiming
from recveil.studies.cells import VERSION, Cell
from recveil.studies.plans import Plan

__all__ = ["Store", "create_store", "describe_plan", "open_store"]

T = TypeVar("T")

STUDY_FILE = "study.json"
ADVICE = "Delete it and run the study again."
CELLS, TIMINGS, FAILURES, RELEASES = "cells", "timings", "failures", "releases"
OWN_NAMES = (CELLS, TIMINGS, FAILURES, RELEASES, "lock")
"""Names in a folder that a run left before its plan was written down."""


@dataclass(frozen=True)
class Store:
    """An open folder of results."""

    folder: Path

    @property
    def releases(self) -> Path:
        """Folder of trained models."""
        return self.folder / RELEASES

    def read_plan(self) -> Plan:
        """Read the plan that was run here last."""
        path = self.folder / STUDY_FILE
        return _parse_file(path, _parse_study, _read_study(self.folder))

    def finished_ids(self) -> set[str]:
        """List the ids of finished cells; no file is opened."""
        return _list_ids(self.folder / CELLS)

    def failed_ids(self) -> set[str]:
        """List the ids of the cells that failed when they were last tried."""
        return _list_ids(self.folder / FAILURES) - self.finished_ids()

    def read_cell(self, cell_id: str) -> CellResult:
        """Read a finished cell."""
        path = self.folder / CELLS / f"{cell_id}.json"
        return _parse_file(path, CellResult.parse, _read_json(path))

    def read_failure(self, cell_id: str) -> CellFailure:
        """Read the error of a failed cell."""
        path = self.folder / FAILURES / f"{cell_id}.json"
        return _parse_file(path, CellFailure.model_validate, _read_json(path))

    def read_timing(self, cell_id: str) -> CellTiming:
        """Read the seconds of a cell; empty where they were lost."""
        path = self.folder / TIMINGS / f"{cell_id}.json"
        return _parse_file(path, CellTiming.model_validate, _read_json(path) if path.is_file() else {})

    def write_cell(self, result: CellResult, timing: CellTiming) -> None:
        """Write a finished cell. Seconds go first: a cell that is there is there with all that belongs to it."""
        name = f"{result.cell.id}.json"
        _write_json(self.folder / TIMINGS / name, timing.model_dump())
        _write_text(self.folder / CELLS / name, result.to_json())
        (self.folder / FAILURES / name).unlink(missing_ok=True)

    def write_failure(self, cell: Cell, failure: CellFailure) -> None:
        """Write the error of a cell."""
        content = {"version": VERSION, "cell": cell.to_dict(), **failure.model_dump()}
        _write_json(self.folder / FAILURES / f"{cell.id}.json", content)

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the folder's lock; first remove what a killed run left half-written.

        The operating system releases the lock if the process dies.
        """
        with open(self.folder / "lock", "a", encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"Another run is writing into {self.folder}. Wait for it, or name another folder."
                ) from None
            self._remove_leftovers()
            yield

    def _remove_leftovers(self) -> None:
        prefixes = dict.fromkeys((CELLS, TIMINGS, FAILURES, RELEASES), ".") | {"": f".{STUDY_FILE}."}
        for part, prefix in prefixes.items():
            for name in os.listdir(self.folder / part):
                if name.startswith(prefix):
                    path = self.folder / part / name
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for stale in _list_ids(self.folder / FAILURES) & self.finished_ids():
            (self.folder / FAILURES / f"{stale}.json").unlink(missing_ok=True)


def create_store(folder: str | Path) -> Store:
    """Open a folder for results, making it if need be; finished cells in it stay.

    Raises:
        UsageError: the folder holds other things than a study.
    """
    folder = Path(folder)
    if folder.is_dir() and (folder / STUDY_FILE).exists():
        _read_study(folder)
    elif folder.is_dir() and any(not name.startswith(".") and name not in OWN_NAMES for name in os.listdir(folder)):
        raise UsageError(f"{folder} holds other things than a study. Name a new or an empty folder.")
    else:
        folder.parent.mkdir(parents=True, exist_ok=True)
    check_output_folder(folder).mkdir(exist_ok=True)
    for part in (CELLS, TIMINGS, FAILURES, RELEASES):
        (folder / part).mkdir(exist_ok=True)
    return Store(folder)


def describe_plan(store: Store, plan: Plan) -> None:
    """Write down which plan is run in the folder."""
    content = {"version": VERSION, "name": plan.name, "size": plan.size, "plan": plan.raw}
    _write_json(store.folder / STUDY_FILE, content)


def open_store(folder: str | Path) -> Store:
    """Open a folder that a study was run into."""
    _read_study(Path(folder))
    return Store(Path(folder))


def _read_study(folder: Path) -> Mapping[str, Any]:
    if not (folder / STUDY_FILE).is_file():
        raise UsageError(f"{folder} is not a folder of results: it has no {STUDY_FILE}. Run a study into it first.")
    content = _read_json(folder / STUDY_FILE)
    if content.get("version") != VERSION:
        raise DataError(
            f"The results in {folder} are of version {content.get('version')} and this recveil reads version "
            f"{VERSION}. Run the study into a new folder, or use the recveil that wrote them."
        )
    return content


def _parse_study(content: Mapping[str, Any]) -> Plan:
    if not isinstance(content.get("plan"), Mapping):
        raise ValueError("plan: an object is needed")
    try:
        return Plan.parse(content["plan"], name=str(content.get("name")), size=str(content.get("size")))
    except UsageError as error:
        raise ValueError(str(error).rstrip(".")) from None


def _list_ids(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    return {name[:-5] for name in os.listdir(folder) if name.endswith(".json") and not name.startswith(".")}


def _parse_file(path: Path, parse: Callable[[Mapping[str, Any]], T], content: Mapping[str, Any]) -> T:
    """Read typed content; whatever is wrong with it is one error that names the file."""
    try:
        return parse(content)
    except ValidationError as error:
        reason = describe_mistake(error)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = str(error)
    raise DataError(f"{path} is damaged ({reason}). {ADVICE}")


def _read_json(path: Path) -> Mapping[str, Any]:
    return read_json_object(path, name=str(path), advice=ADVICE)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    _write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
