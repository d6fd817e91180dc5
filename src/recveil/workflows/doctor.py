"""What this machine has and lacks, and what to do about it: the first thing to look at when something does not work."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["examine"]

REQUIRED = ("numpy", "scipy", "scikit-learn", "torch", "pyarrow", "safetensors", "typer", "rich", "jinja2")
OPTIONAL = {
    "altair": "pip install 'recveil[report]' for reports",
    "vl-convert-python": "pip install 'recveil[report]' for reports",
    "xgboost-cpu": "pip install 'recveil[xgboost]' for the xgboost attackers of the full panel",
    "playwright": "pip install 'recveil[browser]' for the browser test",
}


def examine() -> dict[str, Any]:
    """Each check with what was found, and advice where something is missing."""
    checks = [_row("recveil", _version("recveil")), _row("python", platform.python_version())]
    checks += [_row(name, _version(name), f"pip install {name}") for name in REQUIRED]
    checks += [_row(name, _version(name), advice) for name, advice in OPTIONAL.items()]
    checks += [_device(), _row("cores", str(os.cpu_count())), _data_folder(), _cache()]
    return {"checks": checks, "ok": all(row["ok"] for row in checks if row["name"] in ("recveil", *REQUIRED))}


def _row(name: str, found: str | None, advice: str = "") -> dict[str, Any]:
    return {"name": name, "ok": found is not None, "found": found or "not found", "advice": "" if found else advice}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device() -> dict[str, Any]:
    import torch

    if torch.cuda.is_available():
        return _row("device", f"cuda: {torch.cuda.get_device_name()}")
    return _row("device", f"cpu, {torch.get_num_threads()} threads (no CUDA device is seen)")


def _data_folder() -> dict[str, Any]:
    folder = os.environ.get("RECVEIL_DATA")
    if not folder:
        return _row("RECVEIL_DATA", None, "optional: set it to a folder of data sets; see `recveil data list`")
    if not os.path.isdir(folder):
        return _row("RECVEIL_DATA", None, f"it names {folder}, which is not a folder")
    return _row("RECVEIL_DATA", folder)


def _cache() -> dict[str, Any]:
    from recveil.data.sources.catalog import cache_folder

    folder = cache_folder()
    nearest = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(nearest).free / 2**30
    return _row("cache", f"{folder} ({free:.0f} GiB free)")
