"""A replayed step has the effect of the step; without CUDA it is the step itself."""

from __future__ import annotations

import pytest
import torch

from recveil.attacks.membership import cuda_graph as replay
from recveil.attacks.membership.cuda_graph import WARMUP_STEPS, GraphedStep

STEPS = WARMUP_STEPS + 5


def fit_slope(device: str, *, recorded: bool) -> torch.Tensor:
    """A least-squares fit after a few steps on other rows each time."""
    chance = torch.Generator(device=device).manual_seed(0)
    slope = torch.zeros(3, device=device, requires_grad=True)
    adam = torch.optim.Adam([slope], lr=0.1, fused=True)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        adam.zero_grad()
        (x @ slope - y).square().mean().backward()
        adam.step()

    do = GraphedStep(step, [adam]) if recorded else step
    for _ in range(STEPS):
        x = torch.randn(20, 3, generator=chance, device=device)
        do(x, x @ torch.tensor([1.0, 2.0, 3.0], device=device))
    return slope.detach().cpu()


def test_on_the_cpu_the_step_is_called() -> None:
    assert torch.equal(fit_slope("cpu", recorded=True), fit_slope("cpu", recorded=False))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_on_cuda_the_recording_has_the_effect_of_the_step() -> None:
    torch.testing.assert_close(fit_slope("cuda", recorded=True), fit_slope("cuda", recorded=False))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_a_step_that_cannot_be_recorded_is_called() -> None:
    total = torch.zeros((), device="cuda")

    def step(x: torch.Tensor) -> None:
        if float(x.sum()) > 0:  # asks the device and waits for it: no recording can hold that
            total.add_(1)

    stream, again = torch.cuda.current_stream(), GraphedStep(step, [])
    for _ in range(STEPS):
        again(torch.ones(4, device="cuda"))
    assert again._graph is None
    assert float(total) == STEPS
    assert torch.cuda.current_stream() == stream


class FakeCuda:
    """Stands in for CUDA: a graph that calls back what was recorded, as a device would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, broken: bool = False) -> None:
        self.replays, self.recorded, self.restored = 0, 0, False
        fakes = {"CUDAGraph": lambda: self, "current_stream": lambda: self, "Stream": lambda: self}
        fakes |= {"device": lambda _: self, "stream": lambda _: self, "set_stream": self._restore}
        fakes["graph"] = lambda _, stream: self
        for name, fake in fakes.items():
            monkeypatch.setattr(replay.torch.cuda, name, fake)
        self.broken = broken

    def _restore(self, stream: object) -> None:
        self.restored = stream is self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def wait_stream(self, other: object) -> None: ...

    def replay(self) -> None:
        self.replays += 1


class OnCuda(torch.Tensor):
    """A tensor that says it is on CUDA."""

    is_cuda = True


@pytest.mark.parametrize("broken", [False, True])
def test_the_step_is_recorded_once_after_the_warm_up_or_never(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    parameter = torch.zeros(1, requires_grad=True)
    adam = torch.optim.Adam([parameter])
    seen: list[tuple[bool, float]] = []

    def step(x: torch.Tensor) -> None:
        recording = bool(adam.param_groups[0]["capturable"])
        seen.append((recording, float(x[0])))
        if recording and broken:
            raise RuntimeError("operation not permitted when stream is capturing")

    again = GraphedStep(step, [adam])
    for at in range(STEPS):
        again(torch.full((2,), float(at)).as_subclass(OnCuda))
    assert [recording for recording, _ in seen].count(True) == 1
    assert seen[WARMUP_STEPS][0]
    assert cuda.restored
    assert cuda.replays == (0 if broken else STEPS - WARMUP_STEPS)
    plain = [value for recording, value in seen if not recording]
    assert plain == [float(at) for at in range(STEPS if broken else WARMUP_STEPS)]
    if not broken:
        assert again._inputs[0].tolist() == [STEPS - 1.0] * 2  # what is replayed reads what was given last
