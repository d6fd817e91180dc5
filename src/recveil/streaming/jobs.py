"""One job of cloaking a large table: its id, its output files, and its state while it runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from pydantic import TypeAdapter

from recveil.core.errors import UsageError
from recveil.core.files import check_output_file, check_output_folder, write_atomically
from recveil.core.json_files import parse_json
from recveil.core.outputs import locate_hidden_folder
from recveil.data.io.formats.registry import PARQUET_ENDINGS
from recveil.defenses.embeddings.cell_maps import CellMap
from recveil.streaming.block_table import Table
from recveil.streaming.labels import AttributeSource
from recveil.streaming.parquet_parts import is_finished
from recveil.streaming.passes import PartOutput
from recveil.streaming.work_folder import MAP_NAME, explain_full_disk

__all__ = [
    "FitSummary",
    "compute_job_id",
    "describe_remains",
    "load_cell_map",
    "locate_work_folder",
    "plan_outputs",
    "remove_leftovers",
    "save_cell_map",
]


@dataclass(frozen=True)
class FitSummary:
    """What the fit of a job learned about the table.

    Attributes:
        counts: users of each class, by target.
        displacement: how far users are moved, as a share of their distance from the mean.
        notes: remarks for the reader of the numbers.
    """

    counts: dict[str, dict[str, int]]
    displacement: float
    notes: list[str]


def compute_job_id(
    table: Table, source: AttributeSource, method: object, seed: int, dropped: Sequence[str] = ()
) -> str:
    """Compute an id from the input files, targets, defense, seed and columns that are left out.

    A file that was modified counts as another file.

    Args:
        table: the table.
        source: where the attributes are.
        method: the defense, or what else has fields that decide the output.
        seed: seed of the defense.
        dropped: columns that are left out of the output.

    Returns:
        A hexadecimal digest.
    """
    options = {name: value for name, value in vars(method).items() if not name.endswith("_") and name != "device"}
    files = [part.path for part in table.parts]
    if source.path is not None:
        files += sorted(source.path.iterdir()) if source.path.is_dir() else [source.path]
    identity = {
        "recveil": version("recveil"),
        "method": type(method).__name__,
        "options": options,
        "seed": seed,
        "dropped": list(dropped),
        "facts": {**asdict(source), "path": str(source.path)},
        "files": [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files],
        "ids": None if table.ids is None else hashlib.sha256(str(table.ids).encode()).hexdigest(),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()


def plan_outputs(table: Table, out: Path, job: str) -> tuple[list[PartOutput], int]:
    """List the parts still to be written, and count those that this job has finished.

    Args:
        table: the table.
        out: folder or file to write.
        job: id of the job.

    Returns:
        The parts to write, and the number of finished parts.

    Raises:
        UsageError: `out` is the table itself, has another format, or holds files of another job.
    """
    if out.resolve() == table.path.resolve():
        raise UsageError(f"{out} is the table itself. Name another output.")
    if not table.path.is_dir():
        if out.suffix.lower() not in ((".npy",) if table.schema is None else PARQUET_ENDINGS):
            raise UsageError(f"{out} has another ending than {table.path.name}. Write the table in the format it has.")
        whole = is_finished(check_output_file(out), job)
        return ([] if whole else [PartOutput(table.parts[0], out)]), int(whole)
    check_output_folder(out)
    outputs = [PartOutput(part, out / part.path.name) for part in table.parts]
    present = {path for path in out.iterdir() if path.name[0] != "."} if out.is_dir() else set()
    done = {path for path in present if is_finished(path, job)}
    foreign = sorted(present - done)
    if foreign:
        raise UsageError(
            f"{out} holds {foreign[0].name}, which this job did not write. Name a new folder; a job resumes only with "
            "the same input, targets, method and seed."
        )
    return [output for output in outputs if output.path not in done], len(done)


def locate_work_folder(table: Table, out: Path) -> Path:
    """Return the place of the hidden folder for the state of a job."""
    return out / ".recveil" if table.path.is_dir() else locate_hidden_folder(out)


def describe_remains(table: Table, out: Path, job: str) -> str:
    """Return the sentence about what a job that was interrupted while it wrote leaves behind."""
    finished = sum(is_finished(out / part.path.name, job) for part in table.parts) if table.path.is_dir() else 0
    parts = f"{finished} of {len(table.parts)} parts and " if finished else ""
    return (
        f"{parts or 'Only '}the map in {locate_work_folder(table, out)}, which would disclose classes, "
        f"remain{'s' * (not parts)}; the same command continues with the missing parts."
    )


def remove_leftovers(table: Table, out: Path) -> None:
    """Remove half-written files of runs that were killed; this job must hold the lock of the output."""
    folder, names = out.parent, [out.name]
    if table.path.is_dir():
        folder, names = out, [part.path.name for part in table.parts]
    prefixes = tuple(f".{name}." for name in names)
    for path in folder.iterdir():
        if path.is_file() and path.name.startswith(prefixes) and path.suffix == Path(names[0]).suffix:
            path.unlink()


def save_cell_map(folder: Path, job: str, fitted: CellMap, summary: FitSummary) -> None:
    """Save the map, so that an interrupted job need not learn it again.

    Args:
        folder: the hidden folder.
        job: id of the job.
        fitted: the map.
        summary: what the fit learned.
    """
    from safetensors.numpy import save_file

    path = folder / MAP_NAME
    with explain_full_disk(path), write_atomically(path, private=True) as temporary:
        save_file(fitted.to_arrays(), temporary, metadata={"job": job, "summary": json.dumps(asdict(summary))})


def load_cell_map(folder: Path, job: str) -> tuple[CellMap, FitSummary] | None:
    """Load the map that this job saved; None if there is none, or if it is damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / MAP_NAME, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if header.get("job") != job:
            return None
        return CellMap.from_arrays(arrays), TypeAdapter(FitSummary).validate_python(parse_json(header["summary"]))
    except (SafetensorError, OSError, ValueError, TypeError, KeyError):
        return None
