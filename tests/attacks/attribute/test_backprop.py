"""The written-out gradient and step: the same as autograd's and torch's own optimizer's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from recveil.attacks.attribute.backprop import BETA1, BETA2, Layers, Network, forward

SHAPES = [(5, 2), (5, 7, 2), (4, 9, 6, 3), (6, 10, 8, 5, 21)]
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def network(sizes: tuple[int, ...], T: int = 3, batch: int = 16) -> Network:
    return Network(sizes, T, batch, reg=0.1, generator=torch.Generator().manual_seed(0))


def batch_for(sizes: tuple[int, ...], seed: int, T: int = 3, batch: int = 16) -> Batch:
    random = torch.Generator().manual_seed(seed)
    weight = torch.rand(T, 1, batch, generator=random)
    weight[0, 0, :4] = 0  # rows that only fill up
    y = torch.randint(sizes[-1], (T, 1, batch), generator=random)
    return torch.randn(T, batch, sizes[0], generator=random), y, weight / weight.sum(-1, keepdim=True)


def copies(layers: Layers) -> list[torch.Tensor]:
    return [p.clone().requires_grad_() for layer in layers for p in layer]


def loss(flat: list[torch.Tensor], x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The sum over tasks, written with nothing of what is tested."""
    below = x.mT
    for W, b in zip(flat[:-2:2], flat[1:-2:2], strict=True):
        below = torch.relu(W @ below + b)
    each = functional.cross_entropy(flat[-2] @ below + flat[-1], y[:, 0], reduction="none")
    return (each * weight[:, 0]).sum()


@pytest.mark.parametrize("sizes", SHAPES)
def test_the_gradient_is_autograd_s(sizes: tuple[int, ...]) -> None:
    net, batch = network(sizes), batch_for(sizes, 1)
    flat = copies(net.layers)
    wanted = torch.autograd.grad(loss(flat, *batch), flat)
    net.fill_gradient(*batch)
    for got, want in zip((g for layer in net.gradient for g in layer), wanted, strict=True):
        torch.testing.assert_close(got, want, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("sizes", SHAPES)
def test_steps_are_those_of_torch_s_adamw(sizes: tuple[int, ...]) -> None:
    net = network(sizes)
    flat = copies(net.layers)
    optimizer = torch.optim.AdamW(flat, betas=(BETA1, BETA2), weight_decay=0.1)
    for number, rate in enumerate((1e-2, 3e-2, 2e-2, 1e-3)):
        batch = batch_for(sizes, number)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss(flat, *batch).backward()
        optimizer.step()
        net.step(*batch, rate=rate)
    for got, want in zip((p for layer in net.layers for p in layer), flat, strict=True):
        torch.testing.assert_close(got, want.detach(), atol=1e-4, rtol=1e-3)


def test_forward_is_what_the_steps_see_and_leaves_its_input() -> None:
    sizes = (4, 9, 6, 3)
    net, (x, y, weight) = network(sizes), batch_for(sizes, 2)
    before = x.clone()
    logits = forward(net.layers, x)
    net.fill_gradient(x, y, weight)
    torch.testing.assert_close(logits, net.outputs[-1])
    assert torch.equal(x, before)


def test_each_task_keeps_its_own_best() -> None:
    sizes = (5, 7, 2)
    net = network(sizes)
    start = copies(net.layers)
    net.step(*batch_for(sizes, 3), rate=1e-2)
    net.keep_best(torch.tensor([True, False, True]))
    net_now, kept = copies(net.layers), copies(net.best_layers)
    for first, now, best in zip(start, net_now, kept, strict=True):
        assert torch.equal(best[1], first[1])
        assert torch.equal(best[[0, 2]], now[[0, 2]])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_what_cuda_replays_is_what_the_cpu_computes() -> None:
    sizes = (6, 10, 8, 3)
    on_cpu, on_cuda = network(sizes), Network(sizes, 3, 16, reg=0.1, generator=torch.Generator("cuda").manual_seed(0))
    for here, there in zip(copies(on_cpu.layers), (p for layer in on_cuda.layers for p in layer), strict=True):
        there.copy_(here.detach())
    for number in range(10):
        batch = batch_for(sizes, number)
        on_cpu.step(*batch, rate=1e-3 * (number + 1))
        on_cuda.step(*(t.cuda() for t in batch), rate=1e-3 * (number + 1))
    for here, there in zip(copies(on_cpu.layers), copies(on_cuda.layers), strict=True):
        torch.testing.assert_close(there.cpu(), here, atol=2e-3, rtol=1e-2)
