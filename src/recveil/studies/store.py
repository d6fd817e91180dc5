"""A folder of results: one file for each finished cell, written whole or not at all.

study.json          version of the format, the plan as it was read, its size
cells/<id>.json     cell, records, details: equal bytes from run to run
timings/<id>.json   seconds by step and where: these cannot be equal
failures/<id>.json  cell, error, traceback; tried again on the next run
releases/           trained models, by hash
lock                held while a run writes here
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recveil.core.errors import DataError, UsageError
from recveil.core.files import check_folder, writing
from recveil.studies.plans import VERSION, Plan

__all__ = ["Store", "create_store", "describe_plan", "open_store"]

STUDY_FILE = "study.json"
CELLS, TIMINGS, FAILURES, RELEASES = "cells", "timings", "failures", "releases"
OWN_NAMES = (CELLS, TIMINGS, FAILURES, RELEASES, "lock")
"""What a run that was refused for a wrong plan leaves behind."""


@dataclass(frozen=True)
class Store:
    """An open folder of results."""

    folder: Path

    @property
    def releases(self) -> Path:
        """Where trained models are kept."""
        return self.folder / RELEASES

    def read_plan(self) -> Plan:
        """The plan that was run here last."""
        about = _read_study(self.folder)
        return Plan.parse(about["plan"], name=str(about["name"]), size=str(about["size"]))

    def finished_ids(self) -> set[str]:
        """Ids of the cells that are done; no file is opened."""
        return _list_ids(self.folder / CELLS)

    def failed_ids(self) -> set[str]:
        """Ids of the cells that failed when they were last tried."""
        return _list_ids(self.folder / FAILURES) - self.finished_ids()

    def read_cell(self, cell: str) -> dict[str, Any]:
        """A finished cell: `cell`, `records`, `details`."""
        return _read_json(self.folder / CELLS / f"{cell}.json")

    def read_failure(self, cell: str) -> dict[str, Any]:
        """A failed cell: `cell`, `error`, `traceback`."""
        return _read_json(self.folder / FAILURES / f"{cell}.json")

    def read_timing(self, cell: str) -> dict[str, Any]:
        """Seconds by step; nothing where they were lost."""
        path = self.folder / TIMINGS / f"{cell}.json"
        return _read_json(path) if path.is_file() else {}

    def write_cell(self, cell: str, content: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        """Keep a finished cell. Seconds go first: a cell that is there is there with all that belongs to it."""
        _write_json(self.folder / TIMINGS / f"{cell}.json", timing)
        _write_json(self.folder / CELLS / f"{cell}.json", {"version": VERSION, **content})
        (self.folder / FAILURES / f"{cell}.json").unlink(missing_ok=True)

    def write_failure(self, cell: str, content: Mapping[str, Any]) -> None:
        """Keep what went wrong with a cell."""
        _write_json(self.folder / FAILURES / f"{cell}.json", {"version": VERSION, **content})

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Nobody else writes here within this block; what a killed run left half-written is swept away first."""
        with open(self.folder / "lock", "a", encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"Another run is writing into {self.folder}. Wait for it, or name another folder with --out."
                ) from None
            self._remove_leftovers()
            yield

    def _remove_leftovers(self) -> None:
        places = dict.fromkeys((CELLS, TIMINGS, FAILURES, RELEASES), ".") | {"": f".{STUDY_FILE}."}
        for part, beginning in places.items():
            for name in os.listdir(self.folder / part):
                if name.startswith(beginning):
                    path = self.folder / part / name
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for stale in _list_ids(self.folder / FAILURES) & self.finished_ids():
            (self.folder / FAILURES / f"{stale}.json").unlink(missing_ok=True)


def create_store(folder: str | Path, plan: Plan) -> Store:
    """The folder of this plan's results, made if need be; what is finished there stays."""
    folder = Path(folder)
    if folder.is_dir() and (folder / STUDY_FILE).exists():
        _read_study(folder)
    elif folder.is_dir() and any(not name.startswith(".") and name not in OWN_NAMES for name in os.listdir(folder)):
        raise UsageError(f"{folder} holds other things than a study. Name a new or an empty folder with --out.")
    else:
        folder.parent.mkdir(parents=True, exist_ok=True)
    check_folder(folder).mkdir(exist_ok=True)
    for part in (CELLS, TIMINGS, FAILURES, RELEASES):
        (folder / part).mkdir(exist_ok=True)
    return Store(folder)


def describe_plan(store: Store, plan: Plan) -> None:
    """Write down which plan is run here."""
    _write_json(store.folder / STUDY_FILE, {"version": VERSION, "name": plan.name, "size": plan.size, "plan": plan.raw})


def open_store(folder: str | Path) -> Store:
    """A folder that `recveil study run` wrote."""
    _read_study(Path(folder))
    return Store(Path(folder))


def _read_study(folder: Path) -> dict[str, Any]:
    if not (folder / STUDY_FILE).is_file():
        raise UsageError(f"{folder} is not a folder of results: it has no {STUDY_FILE}. Run `recveil study run` first.")
    about = _read_json(folder / STUDY_FILE)
    if about.get("version") != VERSION:
        raise DataError(
            f"The results in {folder} are of version {about.get('version')} and this recveil reads version {VERSION}. "
            "Run the study into a new folder, or use the recveil that wrote them."
        )
    return about


def _list_ids(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    return {name[:-5] for name in os.listdir(folder) if name.endswith(".json") and not name.startswith(".")}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}). Delete it and run the study again.") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} is not a file of results. Delete it and run the study again.")
    return content


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    with writing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
