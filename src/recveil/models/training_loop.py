"""The one training loop: every model that learns by gradients learns here.

A pass over the data is made whole on the device (batches, negatives, masks), the steps run without asking the device
anything, and between passes the loop asks twice: is all still a number, and how is the validation item ranked.

Where something stops being a number, training ends: the model goes back to its last good pass, with a warning that says
what broke, and `History.stopped` says it too. Only where not one pass was good is there no model, but an error.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from recveil.core.errors import TrainingError, UsageError
from recveil.core.progress import track
from recveil.core.protocols import Penalty
from recveil.core.random import generator as draws_of
from recveil.core.random import torch_generator
from recveil.core.types import Dataset, FloatArray, Split
from recveil.metrics import ranking
from recveil.models.sampling import shuffled

__all__ = ["History", "Network", "Schedule", "all_users", "train"]

FEW = 32
"""A penalty sees at least so many users in a step, and beyond that a quarter of what the step learns from."""

_State = Mapping[str, torch.Tensor]


class Network(Protocol):
    """What the loop trains: a torch module that knows its batches, its loss and what it would release.

    In a step the loss is asked for first, and then, of a penalty, the rows: what both need may be kept in between.
    """

    n_users: int

    def epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """All that one pass looks at, made at once: tensors of shape (steps, batch, ...)."""

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        """The mean recommendation loss of one batch."""

    def user_rows(self, users: torch.Tensor) -> torch.Tensor:
        """What would be released of these users, differentiable: (len(users), d)."""

    def item_rows(self) -> torch.Tensor:
        """What would be released of the items, differentiable."""

    def scores(self, rows: torch.Tensor) -> torch.Tensor:
        """The score of every item for users with these released rows: (len(rows), n_items)."""

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """What is learned."""

    def state_dict(self) -> Mapping[str, Any]:
        """All of it, to keep."""

    def load_state_dict(self, state: Mapping[str, Any]) -> Any:
        """All of it, from what was kept."""

    def train(self, mode: bool = True) -> Any:
        """Learning (dropout on) or serving (off); what was worked out before is out of date."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast: the rate falls in a straight line to zero over `epochs`.

    Training ends early when the validation item was not ranked better for `patience` passes, and the best pass is kept.
    `passes`, where given, ends it after so many. `penalty_users` is the most users that an in-training defense sees in
    one step; it sees fewer where batches are small, for of a model that reads histories a user costs what a row costs.
    """

    epochs: int
    learning_rate: float
    patience: int = 5
    passes: int | None = None
    penalty_users: int = 1024

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.patience < 1:
            raise UsageError(f"epochs is {self.epochs} and patience is {self.patience}. Both must be at least 1.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UsageError(f"learning_rate is {self.learning_rate}. It must be a positive number.")


@dataclass
class History:
    """What happened, pass by pass (`valid`: of the passes that were judged); `best` is the pass kept, from 0.

    `stopped` says what broke, where training ended because something was no longer a number. `went_on` says whether
    what was made with a late penalty is what remains; None where there was no such penalty.
    """

    loss: list[float] = field(default_factory=list)
    valid: list[float] = field(default_factory=list)
    best: int = 0
    stopped: str | None = None
    went_on: bool | None = None


def train(
    network: Network,
    split: Split | None,
    schedule: Schedule,
    *,
    generator: torch.Generator,
    penalty: Penalty | None = None,
    label: str = "training",
) -> History:
    """Train the network in place; with validation items, the pass that ranks them best (NDCG@10) is what remains.

    Where something stops being a number, the last good pass remains, and a warning is given.

    Without validation items all passes run and the last one remains. With a penalty too: choosing by ranking alone
    would pick a pass from before the defense took hold. But from the pass on where the penalty is `settled`, what it
    finishes is defended whatever pass is kept: then the pass is kept whose finished table ranks best.

    A penalty that is `late` waits until the model has been trained without it. The passes after the best one are then
    made once more, with it, and one of them is kept only if its finished table ranks clearly better than that of the
    model it started from.

    Schedules of 200 passes or more are judged a hundred times or so, not after every pass: there the passes are short
    and the judging is not.
    """
    judge = _Judge(split) if split is not None and len(split.valid) else None
    run = _Run(network, judge, schedule, generator, History())
    last = schedule.epochs if schedule.passes is None else schedule.passes
    if judge is None or not getattr(penalty, "late", False):
        run(range(last), penalty, label)
        return run.history
    run(range(last), None, label)
    if not run.history.stopped:
        more = range(run.history.best + 1, last)
        penalty.begin(len(more))  # type: ignore[union-attr]
        run(more, penalty, f"{label} on, defended", rival=judge(network, penalty))
        run.history.went_on = run.history.best >= more.start
    return run.history


@dataclass
class _Run:
    """Passes of one training, and what came of them."""

    network: Network
    judge: _Judge | None
    schedule: Schedule
    generator: torch.Generator
    history: History

    def __post_init__(self) -> None:
        # Users to show to a penalty are drawn apart: the model learns from the same batches with a penalty or without.
        self.shown = torch_generator(draws_of(self.generator.initial_seed(), "penalty"), self.generator.device)
        self.between = max(1, self.schedule.epochs // 100)

    def __call__(self, which: range, penalty: Penalty | None, label: str, *, rival: FloatArray | None = None) -> None:
        """Make these passes, and go back to the best one that was judged.

        `rival` is how the network as it stands ranks the validation item of each user: what has to be beaten.
        """
        network, schedule, history = self.network, self.schedule, self.history
        optimizer = torch.optim.Adam(network.parameters(), lr=schedule.learning_rate, fused=True)
        good = best = None if rival is None else _state(network)
        most = -math.inf
        for epoch in track(which, label, len(which)):
            _set_rate(optimizer, schedule.learning_rate * (1.0 - epoch / schedule.epochs))
            network.train(True)
            batches = network.epoch(self.generator)
            blocks = _blocks(network, penalty, batches, schedule.penalty_users, self.shown)
            losses = _one_pass(network, optimizer, batches, penalty, blocks)
            network.train(False)
            history.stopped = _fault(network, losses, epoch, schedule.learning_rate)
            if history.stopped:
                break
            history.loss.append(float(losses.sum(1).mean()))
            good = _state(network)
            if self.judge is None or not getattr(penalty, "settled", penalty is None):
                history.best = epoch
                continue
            if (epoch + 1) % self.between and epoch + 1 < which.stop:
                continue
            found = self.judge(network, penalty)
            history.valid.append(float(found.mean()))
            if history.valid[-1] > most and (rival is None or _clearly_better(found, rival)):
                most, history.best, best = history.valid[-1], epoch, good
            elif epoch - history.best >= schedule.patience:
                break
        _restore(network, history, best, good)


def all_users(network: Network, penalty: Penalty | None = None) -> FloatArray:
    """The table to release, finished by the defense where there is one."""
    return np.asarray(_finished(network, penalty).float().cpu().numpy())


@torch.no_grad()
def _finished(network: Network, penalty: Penalty | None) -> torch.Tensor:
    table = _table(network)
    return table if penalty is None else penalty.finish(table)


def _table(network: Network) -> torch.Tensor:
    device = next(iter(network.parameters())).device
    return network.user_rows(torch.arange(network.n_users, device=device))


def _set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def _blocks(
    network: Network,
    penalty: Penalty | None,
    batches: tuple[torch.Tensor, ...],
    most: int,
    generator: torch.Generator,
) -> torch.Tensor:
    """Let the penalty look at the whole table, and say which users it sees in each step, (blocks, users)."""
    if penalty is None:
        return torch.empty(0, 0)
    with torch.no_grad():
        penalty.epoch(_table(network))
    few = max(FEW, batches[0].shape[1] // 4)
    return shuffled(network.n_users, min(most, few), generator)


def _one_pass(
    network: Network,
    optimizer: torch.optim.Optimizer,
    batches: tuple[torch.Tensor, ...],
    penalty: Penalty | None,
    blocks: torch.Tensor,
) -> torch.Tensor:
    """One pass over the data; recommendation loss and penalty of each step, (steps, 2), still on the device."""
    losses = torch.zeros(len(batches[0]), 2, device=batches[0].device)
    every = getattr(penalty, "every", 1)
    for step in range(len(losses)):
        loss = network.loss(*(part[step] for part in batches))
        losses[step, 0] = loss.detach()
        if penalty is not None and step % every == 0:
            # Asked in one step of several, it counts as often: the same pull, for less time.
            extra = every * _penalty(network, penalty, blocks[step // every % len(blocks)])
            losses[step, 1] = extra.detach()
            loss = loss + extra
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return losses


def _penalty(network: Network, penalty: Penalty, users: torch.Tensor) -> torch.Tensor:
    # Distinct users, each as likely as any other: active users are not defended more than quiet ones.
    items = network.item_rows() if getattr(penalty, "wants_items", False) else None
    return penalty(users, network.user_rows(users), items)


def _state(network: Network) -> _State:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _restore(network: Network, history: History, best: _State | None, good: _State | None) -> None:
    """Back to the best pass where passes were judged, and where training broke, else to the last good one."""
    if history.stopped:
        if good is None:
            raise TrainingError(history.stopped)
        if best is None:
            best, history.best = good, len(history.loss) - 1
        history.stopped += f" The model is the one after pass {history.best + 1}."
        warnings.warn(history.stopped, RuntimeWarning, stacklevel=5)  # whoever called fit
    if best is not None:
        network.load_state_dict(best)
        network.train(False)  # a network may have kept what it worked out from what it was before


def _fault(network: Network, losses: torch.Tensor, epoch: int, rate: float) -> str | None:
    """What is no longer a number after this pass, and what to do about it."""
    learned = torch.stack([torch.isfinite(weight).all() for weight in network.parameters()])
    fine = torch.isfinite(losses)
    if bool(fine.all() & learned.all()):
        return None
    # One step later everything is broken, so the term to name is the one that broke first.
    broken = ~fine.cpu()
    step = int(broken.any(1).long().argmax()) if broken.any() else len(broken) - 1
    name, cure = "recommendation loss", "."
    if not broken[step, 0]:
        name, cure = "penalty" if broken[step, 1] else "gradient", ", or a weaker defense."
    return (
        f"The {name} is no longer a number (pass {epoch + 1}, step {step + 1}): training cannot go on. "
        f"Use a smaller learning_rate ({rate:g} was given){cure}"
    )


class _Judge:
    """NDCG@10 of the validation items, training items out, by the table that would be released."""

    def __init__(self, split: Split) -> None:
        self.held: Dataset = split.valid
        self.seen = ranking.seen_items(split.train)

    def __call__(self, network: Network, penalty: Penalty | None) -> FloatArray:
        """Of each user who has such an item."""
        table = _finished(network, penalty)
        with torch.no_grad():
            ranks = ranking.rank(
                lambda users: network.scores(table[torch.as_tensor(users, device=table.device)]),
                self.held,
                self.seen,
                block=2**26 if table.is_cuda else None,
            )
        return ranking.ndcg(ranks, 10)


def _clearly_better(found: FloatArray, rival: FloatArray) -> bool:
    """Whether the 95 % interval of the mean lead over the rival, paired by user, lies above 0."""
    return ranking.difference(found, rival).low > 0
