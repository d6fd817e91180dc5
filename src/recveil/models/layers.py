"""Layers of networks that draw from our own generator; those of torch draw from the global one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray

__all__ = ["apply_dropout", "draw_parameters", "export_weights", "make_layer", "make_table"]

Layer = TypeVar("Layer", bound=torch.nn.Module)


def apply_dropout(x: torch.Tensor, rate: float, generator: torch.Generator) -> torch.Tensor:
    """Apply dropout with draws from the generator; a rate of 0 draws nothing."""
    if rate == 0.0:
        return x
    keep = torch.empty_like(x).bernoulli_(1.0 - rate, generator=generator)
    return x * keep.div_(1.0 - rate)


def make_layer(kind: Callable[..., Layer], *sizes: int, generator: torch.Generator, **options: Any) -> Layer:
    """Make a torch layer with weights uniform in +-1/sqrt(inputs) and biases of zero.

    Args:
        kind: class of the layer.
        sizes: its positional arguments.
        generator: source of the weights; its device is where the layer lives.
        options: its keyword arguments.
    """
    # Made without memory first, so that torch draws no initial weights of its own.
    layer = kind(*sizes, device="meta", **options).to_empty(device=generator.device)
    with torch.no_grad():
        for weight in layer.parameters():
            if weight.ndim > 1:
                bound = float(weight[0].numel()) ** -0.5
                weight.uniform_(-bound, bound, generator=generator)
            else:
                weight.zero_()
    return layer


def make_table(n: int, d: int, size: float, generator: torch.Generator) -> torch.nn.Parameter:
    """Make n vectors in random directions, of expected length `size`.

    Args:
        n: number of vectors.
        d: their dimensions.
        size: their expected length.
        generator: source of the draws; its device is where the table lives.
    """
    start = torch.randn(n, d, generator=generator, device=generator.device)
    return torch.nn.Parameter(start * (size / d**0.5))


@torch.no_grad()
def draw_parameters(network: torch.nn.Module, std: float | None, generator: torch.Generator) -> None:
    """Draw all tables and weight matrices from a normal distribution; None leaves them as they are.

    Args:
        network: the network; its biases and single numbers stay, so that a network of zeros is not the start.
        std: standard deviation of the weights.
        generator: source of the draws.
    """
    if std is not None:
        for weight in network.parameters():
            if weight.ndim > 1:
                weight.normal_(0.0, std, generator=generator)


def export_weights(network: torch.nn.Module) -> dict[str, NDArray[Any]]:
    """Copy the whole state of the network into arrays."""
    return {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
