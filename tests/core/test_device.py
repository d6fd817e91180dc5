import numpy as np
import pytest
import torch

from recveil.audits.catalog import MODELS
from recveil.core import device
from recveil.core.errors import UsageError
from recveil.data.sources.catalog import load_data
from recveil.data.splits import leave_one_out
from recveil.workflows.defended_release import fitted


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


def test_repeatable_changes_nothing_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")

    def state() -> tuple[bool, bool]:
        return torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory

    def broken() -> None:
        with device.repeatable():
            assert state() == (True, False)
            raise ValueError("halfway")

    before = state()
    with pytest.raises(ValueError, match="halfway"):
        broken()
    assert state() == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
@pytest.mark.parametrize("name", ["bprmf", "dmf", "ncf", "lightgcn"])
def test_on_a_gpu_the_same_seed_gives_the_same_bits(name: str) -> None:
    split = leave_one_out(load_data("demo", seed=0))
    first, again = (MODELS[name](epochs=3, device="cuda") for _ in range(2))
    for model in (first, again):
        fitted(model, split, [], seed=0)
    np.testing.assert_array_equal(first.user_vectors_, again.user_vectors_)
