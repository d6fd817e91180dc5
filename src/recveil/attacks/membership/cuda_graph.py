"""A training step that is the same every time: on CUDA recorded once and replayed.

A step of DL-MIA is some hundred small operations; a GPU does them faster than Python can ask for them. A CUDA graph is
asked for once a step. What the step needs, chance included, comes in as tensors whose shapes never change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

__all__ = ["GraphedStep"]

WARMUP_STEPS = 3
"""Steps done plainly: they make the state of the optimizers and the workspaces of the libraries."""


class GraphedStep:
    """Calls `step` on tensors of the same shapes every time; on CUDA the recording of it, after the first few.

    A step may read and change tensors that stay where they are (parameters, what optimizers remember), hands nothing
    back, and draws nothing. Where it cannot be recorded it is called as it is, and nothing else changes.
    """

    def __init__(self, step: Callable[..., None], optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._step, self._optimizers = step, optimizers
        self._calls = 0
        self._side: torch.cuda.Stream | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: list[torch.Tensor] = []

    def __call__(self, *inputs: torch.Tensor) -> None:
        """One step."""
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
        """Do the step on the stream that is recorded: what a step leaves behind must not point to another."""
        self._side = self._side or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            self._step(*inputs)
        torch.cuda.current_stream().wait_stream(self._side)

    def _record_graph(self, inputs: Sequence[torch.Tensor]) -> None:
        """Write down what the step asks of the device; nothing of it is done yet."""
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        self._inputs = [given.clone() for given in inputs]
        for optimizer in self._optimizers:
            optimizer.zero_grad()  # so that gradients, too, come to lie in the recording's own memory
        self._set_capturable(True)
        try:
            with torch.cuda.graph(graph, stream=self._side):
                self._step(*self._inputs)
            self._graph = graph
        except RuntimeError:  # asked for what cannot be recorded here: slower, not wrong
            self._set_capturable(False)
        finally:
            torch.cuda.set_stream(before)  # a recording that failed does not always put it back

    def _set_capturable(self, yes: bool) -> None:
        """Said only now: an optimizer that is told so and runs plainly warns."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                if "capturable" in group:
                    group["capturable"] = yes
