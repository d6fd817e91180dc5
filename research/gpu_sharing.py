"""NVIDIA's service that lets processes share a GPU at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def start_sharing(folder: Path) -> bool:
    """Start NVIDIA's service that lets processes share the GPU at the same time, where it works."""
    os.environ.update(CUDA_MPS_PIPE_DIRECTORY=str(folder / "pipe"), CUDA_MPS_LOG_DIRECTORY=str(folder / "log"))
    code = "import torch; print(float(torch.ones(9, device='cuda').sum()))"
    try:
        for name in ("pipe", "log"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True, timeout=20, capture_output=True)
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        stop_sharing()
        for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
            os.environ.pop(name, None)
        return False
    return True


def stop_sharing() -> None:
    """End that service."""
    try:
        subprocess.run(["nvidia-cuda-mps-control"], input=b"quit\n", timeout=20, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return
