"""Perceptrons of one shape for many tasks at once, with a hand-written gradient.

Users are columns: an activation is (T, width, users), so that a product with few classes is still a product of long
rows, which the libraries compute quickly. A step allocates nothing and keeps no graph of operations.
"""

from __future__ import annotations

from itertools import pairwise

import torch

__all__ = ["Layers", "Network", "forward"]

EAGER_STEPS = 3
"""Steps before one is recorded, in which the device sets up what must not be set up while recording."""

BETA1, BETA2 = 0.7, 0.99
"""Decay rates of AdamW, lower than usual because a training has about a hundred steps."""

Layers = list[tuple[torch.Tensor, torch.Tensor]]  # W (T, out, in), b (T, out, 1)


def forward(layers: Layers, x: torch.Tensor) -> torch.Tensor:
    """Compute the logits (T, K, n) of the rows of x (T, n, d)."""
    below = x.mT
    for W, b in layers[:-1]:
        below = torch.baddbmm(b, W, below).relu_()
    W, b = layers[-1]
    return torch.baddbmm(b, W, below)


class Network:
    """T perceptrons that learn from batches of one size.

    `best_layers` holds the weights that `keep_best` last chose for each perceptron. One step of AdamW updates all of
    them. On CUDA the step is recorded once and then replayed, because its kernels are too short to launch one by one.
    The recorded step reads from fixed buffers, into which every batch is copied.

    Args:
        sizes: widths of the input, the hidden layers and the output.
        T: number of perceptrons.
        batch: users in a batch.
        reg: weight decay.
        generator: source of the initial weights; its device is the network's.
    """

    def __init__(self, sizes: tuple[int, ...], T: int, batch: int, *, reg: float, generator: torch.Generator) -> None:
        device = generator.device
        self.reg, self.steps_done = reg, 0
        flat = torch.zeros(T * sum((fan_in + 1) * out for fan_in, out in pairwise(sizes)), device=device)
        # The state of AdamW: weights, gradient, mean of the gradient, mean of its square.
        self.state = [flat, *(torch.zeros_like(flat) for _ in range(3))]
        self.layers, self.gradient = (_view_layers(part, sizes, T) for part in self.state[:2])
        for W, _ in self.layers:
            W.normal_(0, (2 / W.shape[2]) ** 0.5, generator=generator)
        self.best_layers = _view_layers(flat.clone(), sizes, T)
        self.outputs = [torch.empty(T, width, batch, device=device) for width in sizes[1:]]
        self.errors = [torch.empty_like(output) for output in self.outputs]  # derivatives before each ReLU
        self.minus_ones = torch.full((T, 1, batch), -1.0, device=device)
        self.rate, self.step_count = torch.tensor(0.0, device=device), torch.tensor(0.0, device=device)
        self.graph = torch.cuda.CUDAGraph() if device.type == "cuda" else None

    def step(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, rate: float) -> None:
        """Learn from one batch.

        Args:
            x: user vectors (T, batch, d).
            y: classes (T, 1, batch).
            weight: weights of the users (T, 1, batch); those of a task add up to one.
            rate: learning rate.
        """
        self.rate.fill_(rate)
        if self.graph is None or self.steps_done < EAGER_STEPS:
            self._take_step(x, y, weight)
        else:
            if self.steps_done == EAGER_STEPS:
                self.buffers = [part.clone() for part in (x, y, weight)]
                with torch.cuda.graph(self.graph):
                    self._take_step(*self.buffers)
            for buffer, part in zip(self.buffers, (x, y, weight), strict=True):
                buffer.copy_(part)
            self.graph.replay()
        self.steps_done += 1

    def keep_best(self, is_better: torch.Tensor) -> None:
        """Copy the weights of the tasks that `is_better` (T,) marks to `best_layers`."""
        for present, best in zip(self.layers, self.best_layers, strict=True):
            for p, b in zip(present, best, strict=True):
                torch.where(is_better[:, None, None], p, b, out=b)

    def _take_step(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> None:
        """Take one step of AdamW.

        Departs: calls the kernel of `torch.optim.AdamW` directly, whose overhead is ten times a small step.
        """
        self.fill_gradient(x, y, weight)
        self.step_count += 1
        weights, gradient, mean, square = ([part] for part in self.state)
        torch._fused_adamw_(
            weights,
            gradient,
            mean,
            square,
            [],
            [self.step_count],
            lr=self.rate,
            beta1=BETA1,
            beta2=BETA2,
            weight_decay=self.reg,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )

    def fill_gradient(self, x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> None:
        """Fill `gradient` with that of each task's weighted cross-entropy."""
        below = x.mT
        for (W, b), output in zip(self.layers, self.outputs, strict=True):
            torch.baddbmm(b, W, below, out=output)
            if output is not self.outputs[-1]:
                output.relu_()
            below = output
        error = torch.softmax(below, 1, out=self.errors[-1])
        error.scatter_add_(1, y, self.minus_ones).mul_(weight)  # softmax minus the one-hot truth
        for number in range(len(self.layers) - 1, 0, -1):
            below, W = self.outputs[number - 1], self.layers[number][0]
            _multiply_into_gradient(error, below.mT, self.gradient[number])
            passed_on = torch.bmm(W.mT, error, out=self.errors[number - 1])
            # After ReLU the sign of an output is its slope; the output itself is no longer needed.
            error = passed_on.mul_(below.sign_())
        _multiply_into_gradient(error, x, self.gradient[0])


def _multiply_into_gradient(
    error: torch.Tensor, below: torch.Tensor, gradient: tuple[torch.Tensor, torch.Tensor]
) -> None:
    weight_gradient, bias_gradient = gradient
    torch.bmm(error, below, out=weight_gradient)
    torch.sum(error, -1, keepdim=True, out=bias_gradient)


def _view_layers(flat: torch.Tensor, sizes: tuple[int, ...], T: int) -> Layers:
    """View one flat tensor as weights and biases.

    The optimizer treats the flat tensor as one parameter.
    """
    layers, start = [], 0
    for fan_in, width in pairwise(sizes):
        middle, end = start + T * width * fan_in, start + T * width * (fan_in + 1)
        layers.append((flat[start:middle].view(T, width, fan_in), flat[middle:end].view(T, width, 1)))
        start = end
    return layers
