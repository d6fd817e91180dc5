"""What this machine has and lacks, and what to do about it: the first thing to look at when something fails."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version

from recveil.core.result_parts import Part

__all__ = ["Check", "MachineReport", "examine_machine"]

REQUIRED = (
    *("numpy", "scipy", "scikit-learn", "torch", "pyarrow", "safetensors", "typer", "rich", "jinja2", "pydantic"),
    *("altair", "vl-convert-python"),
)
OPTIONAL = {
    "xgboost-cpu": "pip install 'recveil[xgboost]' for the attackers that use it",
    "h5py": "pip install 'recveil[hdf5]' for HDF5 files and Keras models",
    "duckdb": "pip install 'recveil[sql]' for queries of DuckDB",
    "psycopg": "pip install 'recveil[sql]' for queries of PostgreSQL",
    "huggingface-hub": "pip install 'recveil[cloud]' for hf:// addresses",
    "fastapi": "pip install 'recveil[service]' for `recveil serve`",
    "playwright": "pip install 'recveil[browser]' for the browser test",
}


class Check(Part):
    """One thing that was looked for."""

    name: str
    ok: bool
    found: str
    advice: str = ""


class MachineReport(Part):
    """All checks; `ok` says whether everything required is there."""

    checks: list[Check]
    ok: bool


def examine_machine() -> MachineReport:
    """Check versions, device, optional packages and data folders."""
    checks = [_make_check("recveil", _find_version("recveil")), _make_check("python", platform.python_version())]
    checks += [_make_check(name, _find_version(name), f"pip install {name}") for name in REQUIRED]
    checks += [_make_check(name, _find_version(name), advice) for name, advice in OPTIONAL.items()]
    checks += [_check_device(), _make_check("cores", str(os.cpu_count())), _check_data_folder(), _check_cache()]
    return MachineReport(checks=checks, ok=all(c.ok for c in checks if c.name in ("recveil", *REQUIRED)))


def _make_check(name: str, found: str | None, advice: str = "") -> Check:
    return Check(name=name, ok=found is not None, found=found or "not found", advice="" if found else advice)


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _check_device() -> Check:
    import torch

    if torch.cuda.is_available():
        return _make_check("device", f"cuda: {torch.cuda.get_device_name()}")
    return _make_check("device", f"cpu, {torch.get_num_threads()} threads (no CUDA device)")


def _check_data_folder() -> Check:
    folder = os.environ.get("RECVEIL_DATA")
    if not folder:
        return _make_check("RECVEIL_DATA", None, "optional: set it to a folder of data sets; see `recveil data list`")
    if not os.path.isdir(folder):
        return _make_check("RECVEIL_DATA", None, f"it names {folder}, which is not a folder")
    return _make_check("RECVEIL_DATA", folder)


def _check_cache() -> Check:
    from recveil.data.sources.catalog import cache_folder

    folder = cache_folder()
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(nearest).free / 2**30
    return _make_check("cache", f"{folder} ({free:.0f} GiB free)")
