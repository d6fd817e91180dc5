"""Training loop of every model that learns by gradients.

The batches of an epoch (with negatives and masks) are drawn at once on the device, and the steps run without waiting
for it. After each epoch the loop reads two things back: whether all numbers are finite, and how the validation items
are ranked.

When a number is no longer finite, training ends: the model returns to its last good epoch, a warning names the term
that broke, and `TrainingHistory.stopped` holds the same sentence. If the very first epoch breaks, there is no model to
return to and training raises `TrainingError`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from recveil.core.errors import RecveilWarning, TrainingError
from recveil.core.option_types import Count, PositiveFloat, check_fields
from recveil.core.progress import track_progress
from recveil.core.protocols import Penalty
from recveil.core.random import make_generator as numpy_generator
from recveil.core.random import make_torch_generator
from recveil.core.types import Dataset, Split, TrainingHistory
from recveil.metrics import ranking
from recveil.models.networks import TrainableNetwork, compute_table, finish_table
from recveil.models.sampling import draw_batches

__all__ = ["Schedule", "train_network"]

MIN_PENALTY_USERS = 32
"""Users that a penalty sees in a step, at least; in larger batches it sees a quarter of the batch."""

_MAX_RANKED_EPOCHS = 100  # longer schedules rank the validation items only every few epochs

_State = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Schedule:
    """Length and learning rate of a training.

    Training ends early when the validation items were not ranked better for `patience` epochs.

    Args:
        epochs: epochs over which the learning rate falls linearly to zero.
        learning_rate: learning rate of the first epoch.
        patience: epochs without a better ranking after which training ends.
        max_epochs: epochs after which training ends in any case; None runs all.
        penalty_users: users that a penalty sees in one step, at most. It sees fewer where batches are small, because in
            models that read histories a user costs as much as a training row.
    """

    epochs: Count
    learning_rate: PositiveFloat
    patience: Count = 5
    max_epochs: Count | None = None
    penalty_users: Count = 1024

    def __post_init__(self) -> None:
        check_fields(self)


def train_network(
    network: TrainableNetwork,
    split: Split | None,
    schedule: Schedule,
    *,
    generator: torch.Generator,
    penalty: Penalty | None = None,
    label: str = "training",
) -> TrainingHistory:
    """Train the network in place and keep the epoch that validates best.

    That is the epoch with the highest NDCG@10 of the validation items.

    Without validation items all epochs run and the last one is kept. With a penalty the last one is kept too, because
    the best ranked epoch may come before the defense took effect. Where the penalty measures a shortfall, the epochs
    with the smallest one so far are ranked, and the best of them is kept.

    Schedules of 200 epochs or more rank the validation items about a hundred times rather than after each epoch.

    Args:
        network: the network to train.
        split: data with the validation items to rank; None ranks nothing.
        schedule: length and learning rate.
        generator: source of the batches; its device is where the network lives.
        penalty: defense that adds a loss on the user vectors.
        label: what the progress display calls this training.

    Raises:
        TrainingError: the first epoch ended with a number that is not finite.
    """
    judge = _ValidationRanking(split) if split is not None and len(split.valid) else None
    run = _TrainingRun(network, judge, schedule, generator, TrainingHistory())
    run(range(schedule.epochs if schedule.max_epochs is None else schedule.max_epochs), penalty, label)
    return run.history


@dataclass
class _TrainingRun:
    """Epochs of one training and their history."""

    network: TrainableNetwork
    judge: _ValidationRanking | None
    schedule: Schedule
    generator: torch.Generator
    history: TrainingHistory

    def __post_init__(self) -> None:
        # Penalized users have a stream of their own: with or without a penalty the model learns from the same batches.
        seeds = numpy_generator(self.generator.initial_seed(), "penalty")
        self.penalty_generator = make_torch_generator(seeds, self.generator.device)
        self.ranking_interval = max(1, self.schedule.epochs // _MAX_RANKED_EPOCHS)

    def __call__(self, epochs: range, penalty: Penalty | None, label: str) -> None:
        """Run these epochs and return to the best one that was ranked."""
        network, schedule, history = self.network, self.schedule, self.history
        optimizer = torch.optim.Adam(network.parameters(), lr=schedule.learning_rate, fused=True)
        last_good = best = None
        best_ndcg, least = -math.inf, math.inf
        for epoch in track_progress(epochs, label, len(epochs)):
            _set_learning_rate(optimizer, schedule.learning_rate * (1.0 - epoch / schedule.epochs))
            network.train(True)
            batches = network.draw_epoch(self.generator)
            blocks = _draw_penalty_users(network, penalty, batches, schedule.penalty_users, self.penalty_generator)
            losses = _run_epoch(network, optimizer, batches, penalty, blocks)
            network.train(False)
            history.stopped = _describe_fault(network, losses, epoch, schedule.learning_rate)
            if history.stopped:
                break
            history.loss.append(float(losses.sum(1).mean()))
            last_good = _copy_state(network)
            shortfall = 0.0 if penalty is None else penalty.measure_shortfall(finish_table(network, None))
            if self.judge is None or shortfall > least or shortfall == math.inf:
                history.best = epoch if best is None else history.best
                continue
            if (epoch + 1) % self.ranking_interval and epoch + 1 < epochs.stop:
                continue
            history.valid.append(self.judge(network, penalty))
            if history.valid[-1] > best_ndcg or shortfall < least:
                least, best_ndcg, history.best, best = shortfall, history.valid[-1], epoch, last_good
            elif epoch - history.best >= schedule.patience:
                break
        _restore_best(network, history, best, last_good)


def _set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def _draw_penalty_users(
    network: TrainableNetwork,
    penalty: Penalty | None,
    batches: tuple[torch.Tensor, ...],
    max_users: int,
    generator: torch.Generator,
) -> torch.Tensor:
    """Refresh the penalty and draw the users it sees in each step.

    The penalty is refreshed from the whole table; the users are (blocks, users).
    """
    if penalty is None:
        return torch.empty(0, 0)
    with torch.no_grad():
        penalty.start_epoch(compute_table(network))
    quarter = max(MIN_PENALTY_USERS, batches[0].shape[1] // 4)
    return draw_batches(network.n_users, min(max_users, quarter), generator)


def _run_epoch(
    network: TrainableNetwork,
    optimizer: torch.optim.Optimizer,
    batches: tuple[torch.Tensor, ...],
    penalty: Penalty | None,
    blocks: torch.Tensor,
) -> torch.Tensor:
    """Run one epoch; return loss and penalty of each step, (steps, 2).

    The numbers stay on the device.
    """
    losses = torch.zeros(len(batches[0]), 2, device=batches[0].device)
    for step in range(len(losses)):
        loss = network.loss(*(part[step] for part in batches))
        losses[step, 0] = loss.detach()
        if penalty is not None:
            extra = _compute_penalty(network, penalty, blocks[step % len(blocks)])
            losses[step, 1] = extra.detach()
            loss = loss + extra
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return losses


def _compute_penalty(network: TrainableNetwork, penalty: Penalty, users: torch.Tensor) -> torch.Tensor:
    # Users are distinct and drawn uniformly: active users are not defended more than inactive ones.
    items = network.compute_item_vectors() if penalty.needs_items else None
    return penalty(users, network.compute_user_vectors(users), items)


def _copy_state(network: TrainableNetwork) -> _State:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def _restore_best(
    network: TrainableNetwork, history: TrainingHistory, best: _State | None, last_good: _State | None
) -> None:
    """Return to the best ranked epoch.

    After a fault in a training without ranked epochs, return to the last good one.
    """
    if history.stopped:
        if last_good is None:
            raise TrainingError(history.stopped)
        if best is None:
            best, history.best = last_good, len(history.loss) - 1
        history.stopped += f" The model is the one after epoch {history.best + 1}."
        warnings.warn(history.stopped, RecveilWarning, stacklevel=5)  # the caller of fit
    if best is not None:
        network.load_state_dict(best)
        network.train(False)  # drops what the network cached from its former state


def _describe_fault(network: TrainableNetwork, losses: torch.Tensor, epoch: int, rate: float) -> str | None:
    """Name the term that is no longer finite and the remedy; None if all are."""
    finite_weights = torch.stack([torch.isfinite(weight).all() for weight in network.parameters()])
    finite_losses = torch.isfinite(losses)
    if bool(finite_losses.all() & finite_weights.all()):
        return None
    # One step later every term is broken, so the term to name is the one that broke first.
    broken = ~finite_losses.cpu()
    step = int(broken.any(1).long().argmax()) if broken.any() else len(broken) - 1
    term, remedy = "recommendation loss", "."
    if not broken[step, 0]:
        term, remedy = "penalty" if broken[step, 1] else "gradient", ", or a weaker defense."
    return (
        f"The {term} is no longer a number (epoch {epoch + 1}, step {step + 1}), so training ended. "
        f"Use a smaller learning_rate than {rate:g}{remedy}"
    )


class _ValidationRanking:
    """NDCG@10 of the validation items by the table that would be released.

    Training items are not ranked.
    """

    def __init__(self, split: Split) -> None:
        self.held: Dataset = split.valid
        self.seen = ranking.collect_seen_items(split.train)

    def __call__(self, network: TrainableNetwork, penalty: Penalty | None) -> float:
        """Compute the mean NDCG@10 of the users who have a validation item."""
        table = finish_table(network, penalty)
        with torch.no_grad():
            ranks = ranking.rank(
                lambda users: network.score_items(table[torch.as_tensor(users, device=table.device)]),
                self.held,
                self.seen,
                block=2**26 if table.is_cuda else None,
            )
        return float(ranking.ndcg(ranks, 10).mean())
