"""Input unlearning: train again without some of the interactions. It does not remove attributes.

What a platform does when asked to forget data. AttrCloak's Table I shows that forgetting interactions is not forgetting
who somebody is: what is left of a profile says it as well. Kept here to be measured, not to be used against inference.

Departs: the poster does not say how the forgotten interactions were chosen. Here they are 10 % of each user's, drawn at
random, or those that speak most for the user's class (`which="telling"`). The latter looks like the best case and is
the worst: who lacks what is typical of a class is known by that. Logistic regression on the profiles that are left
guesses gender on ML-1M with 0.92, where it had 0.77 (0.76 without a random tenth).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import UsageError, unknown_name
from recveil.core.traits import Choice, DefenseTraits, Range
from recveil.core.types import Attribute, Dataset, FloatArray
from recveil.defenses.data.class_evidence import telling
from recveil.defenses.data.profiles import check_share, lengths, named, some_of, top_rows
from recveil.metrics.ranking import collect_seen_items

__all__ = ["Retrain"]

METHODS = (
    DefenseTraits(
        "retrain",
        builder="Retrain",
        place="data",
        needs_labels=False,
        undisclosed_users="are treated like all others, or left alone where the most telling interactions go",
        search_space={"share": Range(0.02, 0.5, log=True), "which": Choice(("random", "telling"))},
        paper="Wu et al., AttrCloak (ICDE 2025), Table I",
    ),
)

WHICH = ("random", "telling")


@dataclass(frozen=True)
class Retrain:
    """Leaves out some of each user's interactions; attributes can be guessed from the rest.

    `share` is how many, and `strength` multiplies it; everybody keeps at least one. `which` is `random`, and then
    attributes play no part, or `telling`: those that speak most for the user's classes, by logistic regression learned
    from the users of other `folds`, added up over the attributes; then users of whom no class is known keep everything.
    `device` is not used: this runs on the CPU.
    """

    share: float = 0.1
    which: str = "random"
    folds: int = 5
    strength: float = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_share("share", self.share)
        check_share("strength", self.strength)
        if self.which not in WHICH:
            raise unknown_name("choice of what to leave out", self.which, WHICH)
        if self.folds < 2:
            raise UsageError(f"folds must be 2 or more, so that each is judged by the others; got {self.folds}.")

    def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Dataset:
        """The data without them."""
        secrets = named(train, targets, numbers=self.which == "random")
        count = some_of(lengths(train), self.share * self.strength, rng)
        key: FloatArray = rng.random(len(train))
        known = np.ones(train.n_users, dtype=np.bool_)
        if self.which == "telling":
            if not secrets:
                raise UsageError("which is 'telling', but no target was named. Name one, or use which='random'.")
            key, known = self._own(train, secrets, rng)
        left_out = top_rows(train.user, key, np.where(known, np.minimum(count, lengths(train) - 1), 0))
        return train.take(~left_out) if left_out.any() else train

    def _own(
        self, train: Dataset, secrets: list[Attribute], rng: np.random.Generator
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """How strongly each interaction speaks for the classes of its user, and of which users a class is known."""
        seen, key = collect_seen_items(train), np.zeros(len(train))
        for secret in secrets:
            found = telling(seen, secret.codes, len(secret.labels), self.folds, rng)
            fold, code = found.fold[train.user], secret.codes[train.user]
            key += np.where(fold >= 0, found.weights[fold, code, train.item], 0.0)
        return key, np.any([s.known for s in secrets], axis=0)
