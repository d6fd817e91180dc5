"""Input unlearning: train again without some of the interactions. It does not remove attributes.

A platform does this when it is asked to forget data. AttrCloak's Table I shows that the rest of a profile reveals the
attributes as well. The method is here to be measured, not to be used against inference.

Departs: the poster does not say how the forgotten interactions were chosen. Here they are 10 % of each user's, drawn at
random, or those with the most evidence for the user's class (`which="telling"`). The latter looks like the best case
and is the worst: the lack of what is typical of a class reveals the class. Logistic regression on the remaining
profiles guesses gender on ML-1M with 0.92, against 0.77 on all interactions (0.76 without a random tenth).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from recveil.core.errors import UsageError, unknown_name
from recveil.core.option_types import Count, Share, check_fields
from recveil.core.traits import Choice, DefenseTraits, Range
from recveil.core.types import Attribute, Dataset, FloatArray
from recveil.defenses.data.class_evidence import learn_evidence
from recveil.defenses.data.profiles import (
    count_interactions,
    mark_top_rows,
    round_share,
    select_attributes,
)
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

SELECTIONS = ("random", "telling")


@dataclass(frozen=True)
class Retrain:
    """Retraining without some of each user's interactions; attributes can be guessed from the rest.

    Every user keeps at least one interaction.

    Args:
        share: interactions to leave out, as a share of the profile.
        which: `random`, whatever the attributes, or `telling`: those with the most evidence for the user's classes,
            learned from users of other folds and summed over the attributes. Then users without a known class keep
            everything.
        folds: number of folds.
        strength: factor of `share`, from 0 to 1.
        device: not used; the defense runs on the CPU.
    """

    share: Share = 0.1
    which: str = "random"
    folds: Annotated[Count, Field(ge=2)] = 5
    strength: Share = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.which not in SELECTIONS:
            raise unknown_name("choice of what to leave out", self.which, SELECTIONS)

    def __call__(self, train: Dataset, targets: list[str], *, rng: np.random.Generator) -> Dataset:
        """Return the data without these interactions."""
        attributes = select_attributes(train, targets, numbers=self.which == "random")
        count = round_share(count_interactions(train), self.share * self.strength, rng)
        key: FloatArray = rng.random(len(train))
        known = np.ones(train.n_users, dtype=np.bool_)
        if self.which == "telling":
            if not attributes:
                raise UsageError("which='telling' needs a target, and none was named. Name one, or use which='random'.")
            key, known = self._score_interactions(train, attributes, rng)
        forgotten = mark_top_rows(train.user, key, np.where(known, np.minimum(count, count_interactions(train) - 1), 0))
        return train.take(~forgotten) if forgotten.any() else train

    def _score_interactions(
        self, train: Dataset, attributes: list[Attribute], rng: np.random.Generator
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Score the evidence of each interaction for its user's classes; mark the users with a known class."""
        seen, key = collect_seen_items(train), np.zeros(len(train))
        for attribute in attributes:
            evidence = learn_evidence(seen, attribute.codes, len(attribute.labels), self.folds, rng)
            fold, code = evidence.fold[train.user], attribute.codes[train.user]
            key += np.where(fold >= 0, evidence.weights[fold, code, train.item], 0.0)
        return key, np.any([attribute.known for attribute in attributes], axis=0)
