"""What all tests share: the real data, where it is at hand."""

import os
from pathlib import Path

# Before torch is loaded: see recveil/__init__.py. With several test processes, one thread each.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _data_folder() -> Path:
    return Path(os.environ.get("RECVEIL_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets; tests that need it are skipped where it is absent."""
    folder = _data_folder()
    if not (folder / "ml-100k").is_dir():
        pytest.skip(f"real data not at hand: set RECVEIL_DATA to a folder that holds ml-100k/ (looked in {folder})")
    return folder
