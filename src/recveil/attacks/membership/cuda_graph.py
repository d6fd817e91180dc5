"""A training step that is recorded once on CUDA and then replayed.

A step of DL-MIA is some hundred small operations, which a GPU runs faster than Python can launch them. A CUDA graph is
launched once a step. Everything the step needs, random numbers included, enters as tensors whose shapes never change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

__all__ = ["GraphedStep"]

WARMUP_STEPS = 3
"""Steps run without a graph first: they create the state of the optimizers and the workspaces of the libraries."""


class GraphedStep:
    """A callable that runs `step` on tensors of fixed shapes.

    On CUDA it replays a recording after the warm-up.

    A step may read and change tensors that stay in place (parameters, the state of optimizers), returns nothing, and
    draws no random numbers. A step that cannot be recorded is called as it is, with the same result.
    """

    def __init__(self, step: Callable[..., None], optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._step, self._optimizers = step, optimizers
        self._calls = 0
        self._side: torch.cuda.Stream | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[torch.Tensor] = []

    def __call__(self, *inputs: torch.Tensor) -> None:
        """Run one step."""
        if not inputs[0].is_cuda:
            self._step(*inputs)
            return
        with torch.cuda.device(inputs[0].device):
            if self._calls == WARMUP_STEPS:
                self._record_graph(inputs)
            self._calls += 1
            if self._graph is None:
                self._run_on_side_stream(inputs)
            else:
                torch._foreach_copy_(self._inputs, list(inputs))
                self._graph.replay()

    def _run_on_side_stream(self, inputs: Sequence[torch.Tensor]) -> None:
        """Run the step on the recorded stream, so that its buffers belong to it."""
        self._side = self._side or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            self._step(*inputs)
        torch.cuda.current_stream().wait_stream(self._side)

    def _record_graph(self, inputs: Sequence[torch.Tensor]) -> None:
        """Record the operations of a step; none of them runs yet."""
        graph, previous_stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        self._inputs = [tensor.clone() for tensor in inputs]
        for optimizer in self._optimizers:
            optimizer.zero_grad()  # so that gradients are allocated in the memory of the graph
        self._set_capturable(True)
        try:
            with torch.cuda.graph(graph, stream=self._side):
                self._step(*self._inputs)
            self._graph = graph
        except RuntimeError:  # the step holds an operation that cannot be recorded: slower, not wrong
            self._set_capturable(False)
        finally:
            torch.cuda.set_stream(previous_stream)  # a recording that failed does not always restore it

    def _set_capturable(self, capturable: bool) -> None:
        """Set the flag only now: a capturable optimizer that runs without a graph warns."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                if "capturable" in group:
                    group["capturable"] = capturable
