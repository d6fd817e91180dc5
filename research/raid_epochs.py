"""What attackers see after each epoch of RAID, on a part of a data set's users.

    python research/raid_epochs.py --data ml-1m --model dmf --users 2000 --unit whitened --seed 0

It prints one line for each epoch: the shortfall that decides which epoch is kept, balanced accuracy of the paper's own
MLP on classes of equal size and of logistic regression, and at the end NDCG@10 of the validation items in each ranked
epoch. The users are of the half that RAID is searched on, who are attacked in no table.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import torch

from recveil.attacks.attribute.panels import parse_attackers
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.equal_classes import draw_equal_classes
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.protocols import Penalty
from recveil.core.random import make_generator
from recveil.core.types import Attribute, Split
from recveil.data.cleaning import renumber_ids
from recveil.data.sources.catalog import load_dataset
from recveil.data.splits import leave_one_out
from recveil.defenses import DEFENSES
from recveil.models.construction import make_model
from recveil.studies.attribute_cells import select_spared_users

ATTACKERS = "raid-mlp,logistic"
SEARCHED = {"eta": 1.0, "epsilon": 0.01}
"""Setting of RAID that the search chose for DMF and NCF on ML-1M; atoms are a third of the users."""


@dataclass
class Watched:
    """A penalty whose table is attacked after each epoch."""

    penalty: Penalty
    target: Attribute
    seed: int
    needs_items: bool = False
    epoch: int = 0

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Refresh the penalty."""
        self.penalty.start_epoch(user_vectors)

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the loss of the penalty."""
        return self.penalty(users, user_vectors, item_vectors)

    def measure_shortfall(self, user_vectors: torch.Tensor) -> float:
        """Attack the table, print the epoch, and return the shortfall."""
        self.epoch += 1
        shortfall = self.penalty.measure_shortfall(user_vectors)
        scores = attack_table(user_vectors.cpu().numpy(), self.target, self.seed)
        print(f"epoch {self.epoch}: shortfall {shortfall:.2f}, {scores}", flush=True)
        return shortfall

    def finish(self, user_vectors: torch.Tensor) -> torch.Tensor:
        """Return what the penalty releases."""
        return self.penalty.finish(user_vectors)


def attack_table(x: np.ndarray, target: Attribute, seed: int) -> dict[str, float]:
    """Attack the vectors by cross-validation on classes of equal size; return balanced accuracies."""
    rows = draw_equal_classes(target, rng=make_generator(seed, "equal classes"))
    panel = parse_attackers(ATTACKERS, "cpu")
    audit = audit_attribute(
        np.ascontiguousarray(x[rows]), target.take(rows), panel, rules=CrossValidation(5, 1), seed=seed
    )
    numbers = {name: dict(audit.attacks[name])["balanced_accuracy"].value for name in ATTACKERS.split(",")}
    return {name: round(number, 3) for name, number in numbers.items()}


def take_users(data: str, count: int) -> Split:
    """Load a data set, take so many users of the half that is attacked in no table, and split it."""
    whole = load_dataset(data)
    chosen = select_spared_users(whole.n_users, 0.5)[:count]
    return leave_one_out(renumber_ids(whole.take(np.isin(whole.user, chosen))))


def main() -> None:
    """Train one model and print its epochs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="ml-1m")
    parser.add_argument("--model", default="dmf")
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=340, help="as large a part of the data as the profile's 1,024")
    parser.add_argument("--unit", default="relative", help="unit of RAID's pull: relative, raw or whitened")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    split = take_users(arguments.data, arguments.users)
    target = split.train.attributes["gender"]
    model = make_model(arguments.model, arguments.data, {"batch_size": arguments.batch}, "cpu", profile="raid2025")
    options = {**SEARCHED, "atoms": arguments.users // 3, "unit": arguments.unit}
    penalty = DEFENSES.make("raid", **options)(
        [target], epochs=model.epochs, rng=make_generator(arguments.seed, "raid")
    )
    watched = Watched(penalty, target, arguments.seed)
    model.fit(split, penalty=watched, rng=make_generator(arguments.seed, "train"))
    history = model.history_
    assert history is not None
    final = attack_table(model.user_vectors_, target, arguments.seed)
    print(f"kept: epoch {history.best + 1}, {final}; NDCG@10 {[round(v, 4) for v in history.valid]}")


if __name__ == "__main__":
    main()
