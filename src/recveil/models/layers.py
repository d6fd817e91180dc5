"""The pieces networks are made of, started from our own generator: torch's would draw from the global one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray

__all__ = ["apply_dropout", "make_layer", "make_table", "export_weights"]

Layer = TypeVar("Layer", bound=torch.nn.Module)


def apply_dropout(x: torch.Tensor, rate: float, generator: torch.Generator) -> torch.Tensor:
    """Dropout from our own generator: torch's own draws from the global one."""
    if rate == 0.0:
        return x
    keep = torch.empty_like(x).bernoulli_(1.0 - rate, generator=generator)
    return x * keep.div_(1.0 - rate)


def make_layer(kind: Callable[..., Layer], *sizes: int, generator: torch.Generator, **options: Any) -> Layer:
    """A torch layer of this kind, its weights uniform in +-1/sqrt(inputs) from our own generator, its biases zero."""
    # Made without memory first, so that torch draws no start of its own.
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
    """Vectors of expected length `size`, in random directions."""
    start = torch.randn(n, d, generator=generator, device=generator.device)
    return torch.nn.Parameter(start * (size / d**0.5))


def export_weights(network: torch.nn.Module) -> dict[str, NDArray[Any]]:
    """All that the network learned, as arrays."""
    return {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
