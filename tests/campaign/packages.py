"""Packages that the campaign needs, on a machine where recveil is not installed and nothing can be."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
NEEDED = (
    "numpy", "scipy", "sklearn", "torch", "pyarrow", "joblib", "threadpoolctl", "safetensors", "typer", "rich",
    "jinja2", "pydantic",
)  # fmt: skip
HELPFUL = ("altair", "vl_convert", "xgboost", "optuna", "duckdb")
"""Without these, cases that need them are refused in one line, which is judged as well."""


def prepare_packages(folder: Path) -> None:
    """Make `recveil` importable here and in child processes, though it may not be installed; name what is missing.

    Args:
        folder: an empty folder for the record of the installation that Python asks for.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        sys.exit(f"The campaign needs these packages: {', '.join(missing)}.")
    try:
        version("recveil")
    except PackageNotFoundError:
        _write_metadata(folder)
        paths = [str(SOURCE), str(folder)]
        sys.path[:0] = paths
        os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)


def _write_metadata(folder: Path) -> None:
    record = folder / "recveil-0.0.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: recveil\nVersion: 0.0.0\n")
