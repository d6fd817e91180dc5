import pytest
import torch

from recveil import device
from recveil.errors import UsageError


def test_none_and_auto_take_what_is_there() -> None:
    there = "cuda" if torch.cuda.is_available() else "cpu"
    assert device.resolve(None).type == device.resolve("auto").type == there
    assert device.resolve("cpu") == torch.device("cpu")


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(UsageError, match="No device is called 'gpu9'"):
        device.resolve("gpu9")


def test_cuda_asked_for_and_absent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="no CUDA here. Use --device cpu"):
        device.resolve("cuda")
