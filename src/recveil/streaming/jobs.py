"""One job of cloaking a large table: its id, its output files, and its state while it runs."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from recveil.core.errors import UsageError
from recveil.core.files import check_output_file, check_output_folder, make_folder, write_atomically
from recveil.data.io.vectors import PARQUET_SUFFIXES
from recveil.defenses.embeddings.cell_maps import CellMap, StreamingDefense
from recveil.streaming.block_table import Table
from recveil.streaming.labels import AttributeSource
from recveil.streaming.parquet_parts import is_finished
from recveil.streaming.passes import PartOutput

__all__ = [
    "FitSummary",
    "compute_job_id",
    "load_cell_map",
    "make_work_folder",
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


def compute_job_id(table: Table, source: AttributeSource, method: StreamingDefense, seed: int) -> str:
    """Compute an id from the input files, targets, defense and seed.

    A file that was modified counts as another file.

    Args:
        table: the table.
        source: where the attributes are.
        method: the defense.
        seed: seed of the defense.

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
        if out.suffix.lower() not in ((".npy",) if table.schema is None else PARQUET_SUFFIXES):
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


def make_work_folder(table: Table, out: Path) -> Path:
    """Make the hidden folder for the state of a job; only its owner may read it."""
    folder = make_folder(out) / ".recveil" if table.path.is_dir() else out.with_name(f".{out.name}.recveil")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def remove_leftovers(folder: Path, table: Table, out: Path) -> None:
    """Remove the state of the job and half-written files of runs that were killed.

    Args:
        folder: the hidden folder.
        table: the table.
        out: folder or file that was written.
    """
    shutil.rmtree(folder, ignore_errors=True)
    names = [part.path.name for part in table.parts] if table.path.is_dir() else [out.name]
    prefixes = tuple(f".{name}." for name in names)
    for path in folder.parent.iterdir():
        if path.name.startswith(prefixes) and path.suffix == Path(names[0]).suffix:
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

    with write_atomically(folder / "map.safetensors") as temporary:
        save_file(fitted.to_arrays(), temporary, metadata={"job": job, "summary": json.dumps(asdict(summary))})


def load_cell_map(folder: Path, job: str) -> tuple[CellMap, FitSummary] | None:
    """Load the map that this job saved; None if there is none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / "map.safetensors", framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError):
        return None
    if header.get("job") != job:
        return None
    return CellMap.from_arrays(arrays), FitSummary(**json.loads(header["summary"]))
