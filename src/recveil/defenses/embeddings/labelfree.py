"""Label-free cloak: hide what the vectors themselves tell of an attribute, for everybody alike.

All that a vector tells of a class is the posterior P(class | x). It is learned from the users who disclosed a class,
cross-fitted for themselves, and then hidden: the carried vectors and their products are uncorrelated with it. The map
is a function of the vector alone, so that undisclosed and later users are protected like all others, and nobody can
tell by it who disclosed.

A first stage works in polar coordinates (log length and direction), with means and covariances. The next ones learn
the posterior that is left, and remove means. They end when held-out disclosed users show that nothing is left to learn.

Limits: it hides what the disclosed users let it learn. With few of them an attacker who knows more users finds the
rest. It moves users further than defenses that know the class of each user, because the posterior tells more of a user
than the class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from recveil.core.option_types import Count, Share
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cells import check_table
from recveil.defenses.embeddings.fitted_maps import FittedMap, Stage, blend_tables
from recveil.defenses.embeddings.posteriors import fit_posterior
from recveil.defenses.embeddings.score_maps import ScoreFeatures, ScoreMap, fit_turn
from recveil.defenses.embeddings.transformers import MapTransformer

__all__ = ["LabelFree"]

METHODS = (
    DefenseTraits(
        "labelfree",
        builder="LabelFree",
        needs_labels=False,
        keeps_map=True,
        protects_undisclosed=True,
        auto_rank=50,
        max_dimensions=512,
        undisclosed_users="went through the same map as all others, which needs no label",
        search_space={"strength": Range(0.3, 1.0), "stages": Range(1, 3)},
    ),
)

MAX_DIRECTIONS = 600
"""Most random directions whose cosines the posterior is learned from."""

USERS_PER_DIRECTION = 5
"""Disclosed users for each random direction, where there are few of them."""

MIN_EVIDENCE = 1.645
"""Evidence, in standard errors, that a further stage needs: 5 % of stages without a signal have as much."""

CYCLES = 4
"""Cycles over the scores where there are several: each undoes a little of the others."""

MAX_USERS = 50_000
"""Users that the moments of a stage are measured on."""


@dataclass
class LabelFree(MapTransformer):
    """Vectors that no longer tell the posterior of an attribute, for disclosed and undisclosed users alike.

    Args:
        stages: most posteriors that are learned and hidden one after the other.
        strength: share of the straight way from the undefended table to the fully defended one.
        device: not used; it is computed on the CPU.
        random_state: seed of the folds and of the random directions.
    """

    stages: Count = 2
    strength: Share = 1.0

    def compute_release(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FittedMap]:
        """Return the defended table and the map that made it; disclosed users take their cross-fitted posterior."""
        check_table(x, codes, self.strength)
        start: FloatArray = np.asarray(x, dtype=np.float64)
        columns, moved, kept = codes.reshape(len(x), -1), start, list[Stage]()
        no_cells = np.empty((0, columns.shape[1]), dtype=np.int64)  # so all users count as undisclosed
        for number in range(self.stages):
            step = _fit_stage(moved, columns, rng, is_first=number == 0)
            if step is None:
                break
            stage, moved = step
            kept.append((no_cells, stage))
        table = blend_tables(torch.from_numpy(start), torch.from_numpy(moved), self.strength)
        return table, FittedMap(kept, self.strength, 0.0, x.shape[1])


def _fit_stage(
    x: FloatArray, codes: IntArray, rng: np.random.Generator, *, is_first: bool
) -> tuple[ScoreMap, FloatArray] | None:
    """Fit one stage; return it and the rows that it carried, or None if there is nothing to hide."""
    n_disclosed = int((codes >= 0).any(1).sum())
    features = ScoreFeatures.fit(x, min(MAX_DIRECTIONS, n_disclosed // USERS_PER_DIRECTION), rng)
    known = features.compute(x)
    posteriors = [p for p in (fit_posterior(known, column, rng) for column in codes.T) if p is not None]
    if not is_first:
        posteriors = [p for p in posteriors if p.evidence > MIN_EVIDENCE]
    if not posteriors:
        return None
    weights = np.hstack([p.weights for p in posteriors])
    offsets = np.concatenate([p.offsets for p in posteriors])
    scores = np.hstack([p.scores for p in posteriors])
    sample = np.arange(len(x)) if len(x) <= MAX_USERS else np.sort(rng.permutation(len(x))[:MAX_USERS])
    z, turns, n_scores = (features.polar.encode(x) if is_first else x)[sample], [], scores.shape[1]
    for t in range(n_scores * (CYCLES if n_scores > 1 else 1)):
        s = scores[sample, t % n_scores]
        turn = fit_turn(z, s, with_covariances=is_first)
        if turn is None:
            return None
        z = turn.apply(z, s)
        turns.append(turn)
    parts = (
        np.stack([turn.knots for turn in turns]),
        np.stack([turn.means for turn in turns]),
        np.stack([turn.A for turn in turns]),
        np.stack([turn.m for turn in turns]),
    )
    stage = ScoreMap(
        features,
        torch.from_numpy(weights),
        torch.from_numpy(offsets),
        torch.tensor([float(is_first)], dtype=torch.float64),
        *(torch.from_numpy(part) for part in parts),
    )
    return stage, stage.carry_rows(x, scores)
