import numpy as np
import pytest
import torch

from recveil.core import device
from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.data.splits import leave_one_out
from recveil.models import MODELS


def test_none_and_auto_choose_the_best_device_of_the_machine() -> None:
    there = "cuda" if torch.cuda.is_available() else "cpu"
    assert device.resolve_device(None).type == device.resolve_device("auto").type == there
    assert device.resolve_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu9", "", "meta", "mps", "xla", "xpu", "vulkan", "privateuseone", "cpu:-1"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"No device is called '{name}'"):
        device.check_device(name)
    device.check_device(None)


def test_cuda_that_is_absent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="no CUDA here. Use 'cpu'"):
        device.resolve_device("cuda")


def test_deterministic_algorithms_end_with_their_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")

    def state() -> tuple[bool, bool]:
        return torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory

    def broken() -> None:
        with device.deterministic_algorithms():
            assert state() == (True, False)
            raise ValueError("halfway")

    before = state()
    with pytest.raises(ValueError, match="halfway"):
        broken()
    assert state() == before


def test_one_thread_ends_with_its_block_and_decorates() -> None:
    @device.use_one_thread()
    def count_threads() -> int:
        return torch.get_num_threads()

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert count_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
@pytest.mark.parametrize("name", ["bprmf", "dmf", "ncf", "lightgcn"])
def test_on_a_gpu_the_same_seed_gives_the_same_bits(name: str) -> None:
    split, vectors = leave_one_out(load_dataset_or_demo("demo", seed=0)), []
    for _ in range(2):
        with device.deterministic_algorithms():
            model = MODELS.make(name, epochs=3, device="cuda").fit(split, rng=make_generator(0, "train"))
        vectors.append(model.user_vectors_)
    np.testing.assert_array_equal(*vectors)
