"""One job of cloaking a large table: what it is known by, where it writes, and what it keeps while it runs."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from recveil.core.errors import UsageError
from recveil.core.files import check_output_file, check_output_folder, make_folder, write_atomically
from recveil.data.io.vectors import PARQUET_SUFFIXES
from recveil.defenses.embeddings.cell_maps import CellMap, StreamingDefense
from recveil.streaming.block_table import Table
from recveil.streaming.labels import AttributeSource
from recveil.streaming.parquet_parts import is_finished
from recveil.streaming.passes import PartOutput

__all__ = ["remove_leftovers", "compute_job_id", "load_cell_map", "plan_outputs", "save_cell_map", "make_work_folder"]


def compute_job_id(table: Table, facts: AttributeSource, method: StreamingDefense, seed: int) -> str:
    """The same for the same input files, targets, defense and seed; a file that was touched is another."""
    options = {name: value for name, value in vars(method).items() if not name.endswith("_") and name != "device"}
    sources = [part.path for part in table.parts]
    if facts.path is not None:
        sources += sorted(facts.path.iterdir()) if facts.path.is_dir() else [facts.path]
    said = {
        "recveil": version("recveil"),
        "method": type(method).__name__,
        "options": options,
        "seed": seed,
        "facts": {**asdict(facts), "path": str(facts.path)},
        "files": [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in sources],
        "ids": None if table.ids is None else hashlib.sha256(str(table.ids).encode()).hexdigest(),
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def plan_outputs(table: Table, out: Path, job: str) -> tuple[list[PartOutput], int]:
    """The parts still to be written, and how many are there already; what is there must be of this job."""
    if out.resolve() == table.path.resolve():
        raise UsageError(f"{out} is the table itself. Name another place to write to.")
    if not table.path.is_dir():
        if out.suffix.lower() not in ((".npy",) if table.schema is None else PARQUET_SUFFIXES):
            raise UsageError(f"{table.path.name} is written in the form it has; {out} has another ending.")
        whole = is_finished(check_output_file(out), job)
        return ([] if whole else [PartOutput(table.parts[0], out)]), int(whole)
    check_output_folder(out)
    every = [PartOutput(part, out / part.path.name) for part in table.parts]
    there = {path for path in out.iterdir() if path.name[0] != "."} if out.is_dir() else set()
    done = {path for path in there if is_finished(path, job)}
    strange = sorted(there - done)
    if strange:
        raise UsageError(
            f"{out} holds {strange[0].name}, which this job did not write. Name a new folder; a job that was cut short "
            "is taken up again only with the same input, targets, method and seed."
        )
    return [output for output in every if output.path not in done], len(done)


def make_work_folder(table: Table, out: Path) -> Path:
    """The hidden folder for what a job keeps while it runs; nobody else may read it."""
    folder = make_folder(out) / ".recveil" if table.path.is_dir() else out.with_name(f".{out.name}.recveil")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def remove_leftovers(folder: Path, table: Table, out: Path) -> None:
    """Remove the map and whatever else was kept, and what a job that was killed left half-written beside the parts."""
    shutil.rmtree(folder, ignore_errors=True)
    names = [part.path.name for part in table.parts] if table.path.is_dir() else [out.name]
    ours = tuple(f".{name}." for name in names)
    for path in folder.parent.iterdir():
        if path.name.startswith(ours) and path.suffix == Path(names[0]).suffix:
            path.unlink()


def save_cell_map(folder: Path, job: str, fitted: CellMap, about: dict[str, Any]) -> None:
    """Keep the map, so that a job that is cut short need not learn it again."""
    from safetensors.numpy import save_file

    with write_atomically(folder / "map.safetensors") as temporary:
        save_file(fitted.to_arrays(), temporary, metadata={"job": job, "about": json.dumps(about)})


def load_cell_map(folder: Path, job: str) -> tuple[CellMap, dict[str, Any]] | None:
    """The map that this job has kept, and what was said of it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / "map.safetensors", framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError):
        return None
    if header.get("job") != job:
        return None
    return CellMap.from_arrays(arrays), json.loads(header["about"])
