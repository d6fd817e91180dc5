"""Perceptrons of one shape for many tasks, side by side, with the gradient written out and every buffer in its place.

Users are columns: an activation is (T, width, users), so that a product with few classes is still a product of long
rows, which is where the libraries are quick. Nothing is allocated in a step, and no graph of operations is kept.
"""

from __future__ import annotations

from itertools import pairwise

import torch

__all__ = ["Layers", "Network", "forward"]

EAGER_STEPS = 3
"""Steps before one is recorded, in which the device sets up what must not be set up while recording."""

BETA1, BETA2 = 0.7, 0.99
"""Shorter memories than usual for AdamW: a training has about a hundred steps."""

Layers = list[tuple[torch.Tensor, torch.Tensor]]  # W (T, out, in), b (T, out, 1)


def forward(layers: Layers, x: torch.Tensor) -> torch.Tensor:
    """The logits (T, K, n) for the rows of x (T, n, d)."""
    below = x.mT
    for W, b in layers[:-1]:
        below = torch.baddbmm(b, W, below).relu_()
    W, b = layers[-1]
    return torch.baddbmm(b, W, below)


class Network:
    """T perceptrons that learn from batches of one size; `kept` holds what `keep` last chose for each.

    One step of AdamW teaches all. On CUDA it is recorded once and then replayed: its kernels are too short to launch.
    What is recorded reads from fixed places, into which every batch is copied.
    """

    def __init__(self, sizes: tuple[int, ...], T: int, batch: int, *, reg: float, generator: torch.Generator) -> None:
        where = generator.device
        self.reg, self.done = reg, 0
        flat = torch.zeros(T * sum((fan_in + 1) * out for fan_in, out in pairwise(sizes)), device=where)
        self.flat = [flat, *(torch.zeros_like(flat) for _ in range(3))]  # weights, gradient, its mean, its mean square
        self.layers, self.gradient = (_layers_in(part, sizes, T) for part in self.flat[:2])
        for W, _ in self.layers:
            W.normal_(0, (2 / W.shape[2]) ** 0.5, generator=generator)
        self.kept = _layers_in(flat.clone(), sizes, T)
        self.out = [torch.empty(T, width, batch, device=where) for width in sizes[1:]]
        self.error = [torch.empty_like(out) for out in self.out]  # the loss by each output before its ReLU
        self.minus = torch.full((T, 1, batch), -1.0, device=where)
        self.rate, self.steps = torch.tensor(0.0, device=where), torch.tensor(0.0, device=where)
        self.graph = torch.cuda.CUDAGraph() if where.type == "cuda" else None

    def step(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, rate: float) -> None:
        """Learn from one batch: x (T, batch, d), y and weight (T, 1, batch); the weights of a task add up to one."""
        self.rate.fill_(rate)
        if self.graph is None or self.done < EAGER_STEPS:
            self._step(x, y, weight)
        else:
            if self.done == EAGER_STEPS:
                self.places = [given.clone() for given in (x, y, weight)]
                with torch.cuda.graph(self.graph):
                    self._step(*self.places)
            for place, given in zip(self.places, (x, y, weight), strict=True):
                place.copy_(given)
            self.graph.replay()
        self.done += 1

    def keep(self, better: torch.Tensor) -> None:
        """Remember the present weights of the tasks that `better` (T,) names."""
        for now, best in zip(self.layers, self.kept, strict=True):
            for p, k in zip(now, best, strict=True):
                torch.where(better[:, None, None], p, k, out=k)

    def _step(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> None:
        """One step; `torch.optim.AdamW` ends in the same kernel, after ten times as long as the smallest takes."""
        self.differentiate(x, y, weight)
        self.steps += 1
        weights, gradient, mean, square = ([part] for part in self.flat)
        torch._fused_adamw_(
            weights,
            gradient,
            mean,
            square,
            [],
            [self.steps],
            lr=self.rate,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=self.reg,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )

    def differentiate(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> None:
        """Fill `gradient` with that of each task's weighted cross-entropy."""
        below = x.mT
        for (W, b), out in zip(self.layers, self.out, strict=True):
            torch.baddbmm(b, W, below, out=out)
            if out is not self.out[-1]:
                out.relu_()
            below = out
        error = torch.softmax(below, 1, out=self.error[-1])
        error.scatter_add_(1, y, self.minus).mul_(weight)  # softmax less the truth
        for number in range(len(self.layers) - 1, 0, -1):
            below, W = self.out[number - 1], self.layers[number][0]
            _product(error, below.mT, self.gradient[number])
            through = torch.bmm(W.mT, error, out=self.error[number - 1])
            error = through.mul_(below.sign_())  # after ReLU the sign is its slope; the output itself is done with
        _product(error, x, self.gradient[0])


def _product(error: torch.Tensor, below: torch.Tensor, gradient: tuple[torch.Tensor, torch.Tensor]) -> None:
    by_weights, by_bias = gradient
    torch.bmm(error, below, out=by_weights)
    torch.sum(error, -1, keepdim=True, out=by_bias)


def _layers_in(flat: torch.Tensor, sizes: tuple[int, ...], T: int) -> Layers:
    """Weights and biases as views of one flat tensor, which the optimizer then sees as one parameter."""
    layers, start = [], 0
    for fan_in, width in pairwise(sizes):
        middle, end = start + T * width * fan_in, start + T * width * (fan_in + 1)
        layers.append((flat[start:middle].view(T, width, fan_in), flat[middle:end].view(T, width, 1)))
        start = end
    return layers
