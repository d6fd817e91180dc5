"""Label-free cloak: hide what the vectors themselves tell of an attribute, for everybody alike.

All that a vector tells of a class is the posterior P(class | x). It is learned from the users who disclosed a class,
and then hidden: the carried vectors and their products are uncorrelated with it. The map is a function of the vector
alone, so that undisclosed and later users are protected like all others, and nobody can tell by it who disclosed.

Disclosed users taught the map, so among them it removes what belongs to these users by chance as well, and an attacker
who inverts the guess finds them. Their classes are known: `sliced` gives them class differences as random as those of
permuted labels. Posteriors without a user's own class (cross-fitting) would not do: the weights that an attacker finds
in the table contain that class, and the difference tells it.

Limits: it hides what the disclosed users let it learn. With few of them an attacker who knows more users finds the
rest. It moves users further than defenses that know the class of each user, because the posterior tells more of a user
than the class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from recveil.core.device import use_one_thread
from recveil.core.errors import UsageError
from recveil.core.option_types import Share
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cell_maps import CellAffine, CellMap, CellStatistics
from recveil.defenses.embeddings.cells import check_table
from recveil.defenses.embeddings.fitted_maps import FittedMap, Stage, blend_tables
from recveil.defenses.embeddings.number_labels import cut_into_quantiles, encode_numbers
from recveil.defenses.embeddings.posteriors import find_usable_classes, fit_number_posterior, fit_posterior
from recveil.defenses.embeddings.score_maps import ScoreFeatures, ScoreMap, fit_turn
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.embeddings.transformers import MapTransformer
from recveil.transport.row_order import sort_rows

__all__ = ["LabelFree"]

METHODS = (
    DefenseTraits(
        "labelfree",
        builder="LabelFree",
        needs_labels=False,
        keeps_map=True,
        streams=True,
        protects_undisclosed=True,
        auto_rank=50,
        max_dimensions=512,
        undisclosed_users="went through the same map as all others, which needs no label",
        search_space={"strength": Range(0.3, 1.0)},
    ),
)

MAX_DIRECTIONS = 600
"""Most random directions whose cosines the posterior is learned from."""

USERS_PER_DIRECTION = 5
"""Disclosed users for each random direction, where there are few of them."""

CYCLES = 4
"""Cycles over the scores where there are several: each undoes a little of the others."""

NUMBER_CLASSES = 4
"""Quantile classes of a number, by which disclosed users are corrected."""

MAX_USERS = 50_000
"""Users that the moments of the map are measured on."""

MAX_SAMPLE_SHARE = 0.1
"""Largest share of a large table that its map is learned from. Disclosed users of that sample are not corrected."""

MIN_SAMPLE_USERS = 1_000
"""Fewest users that the map of a large table is learned from."""


@dataclass
class LabelFree(MapTransformer):
    """Vectors that no longer tell the posterior of an attribute, for disclosed and undisclosed users alike.

    Args:
        strength: share of the straight way from the undefended table to the fully defended one.
        numbers: the labels are numbers, such as ages: hides where among them the vectors place a user. For `fit` and
            `fit_transform` in Python; None and NaN are undisclosed, -1 is a number.
        device: where the correction of disclosed users is computed; the map itself is computed on the CPU.
        random_state: seed of the folds, of the random directions and of the correction.
    """

    needs_sample: ClassVar[bool] = True
    samples_undisclosed: ClassVar[bool] = True

    strength: Share = 1.0
    numbers: bool = False

    def transform(self, X: ArrayLike, y: ArrayLike | None = None) -> Any:
        """Return the released rows of users of the fit, and carry later users by the map; numbers are not needed."""
        return super().transform(X, None if self.numbers else y)

    def _validate_table(self, X: ArrayLike, y: ArrayLike | None) -> tuple[FloatArray, IntArray]:
        if not self.numbers or y is None:
            return super()._validate_table(X, y)
        x: FloatArray = validate_data(self, X, dtype=(np.float64, np.float32))
        codes = encode_numbers(y, len(x))
        self.classes_ = [np.empty(0, dtype=np.int64)] * codes.shape[1]
        return x, codes

    @use_one_thread()
    def compute_release(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FittedMap]:
        """Return the defended table and the map that made it; disclosed users are corrected after the map."""
        check_table(x, codes, self.strength)
        if self.numbers and not hasattr(self, "classes_"):
            raise UsageError("numbers=True is for fit and fit_transform in Python. Cut the numbers into classes here.")
        start: FloatArray = np.asarray(x, dtype=np.float64)
        columns = codes.reshape(len(x), -1)
        no_cells = np.empty((0, columns.shape[1]), dtype=np.int64)  # so all users count as undisclosed
        stage = _fit_stage(start, columns, rng, numbers=self.numbers)
        stages: list[Stage] = [] if stage is None else [(no_cells, stage)]
        moved = start.copy() if stage is None else stage(torch.from_numpy(start), torch.empty(0)).numpy()
        disclosed = (columns >= 0).any(1)
        columns = cut_into_quantiles(columns, NUMBER_CLASSES) if self.numbers else columns
        if any(len(find_usable_classes(column)) > 1 for column in columns.T):
            moved[disclosed] = Sliced(device=self.device)(moved[disclosed], columns[disclosed], rng=rng)
        table = blend_tables(torch.from_numpy(start), torch.from_numpy(moved), self.strength)
        return table, FittedMap(stages, self.strength, 0.0, x.shape[1])

    def fit_cells(self, statistics: CellStatistics, rng: np.random.Generator) -> tuple[CellMap, list[str]]:
        """Fit the map of all users from a sample of them, for tables larger than memory; nobody is corrected."""
        if self.numbers:
            raise UsageError("numbers=True is not offered for large tables. Cut the numbers into classes.")
        x, codes = _draw_users(statistics, rng)
        total = int(statistics.moments.n.sum())
        stage = _fit_stage(x, codes, rng, numbers=False)
        note = (
            f"The map was learned from {len(x):,} of {total:,} users. Those of them who disclosed a class did not go "
            "through the correction that they get in memory; in a table of this size they are few."
        )
        first = CellAffine.identity(statistics.moments)
        return CellMap(first, strength=self.strength, scores=stage), [] if stage is None else [note]


def _draw_users(statistics: CellStatistics, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Draw users from the sample of the cells so that each cell has its share of the table."""
    counts, cells = statistics.moments.n.numpy(), statistics.sample_cells.astype(np.int64)
    held, total = np.bincount(cells, minlength=len(counts)), counts.sum()
    limit = min(MAX_USERS, MAX_SAMPLE_SHARE * total)
    if limit < MIN_SAMPLE_USERS:
        raise UsageError(
            f"labelfree learns the map of a large table from a tenth of its users, and this one has {int(total):,}. "
            f"Use it in memory (without `stream`), or on {int(MIN_SAMPLE_USERS / MAX_SAMPLE_SHARE):,} users or more."
        )
    present = counts > 0
    share = min(limit / total, float((held[present] / counts[present]).min()))
    order = sort_rows(statistics.sample, cells)
    order = order[rng.permutation(len(order))]
    chosen = [order[cells[order] == c][: round(share * n)] for c, n in enumerate(counts)]
    rows = np.concatenate(chosen)
    return statistics.sample[rows].astype(np.float64), statistics.codes[cells[rows]]


def _fit_stage(x: FloatArray, codes: IntArray, rng: np.random.Generator, *, numbers: bool) -> ScoreMap | None:
    """Fit the map that hides the posteriors of all attributes, or None if there is nothing to learn."""
    n_disclosed = int((codes >= 0).any(1).sum())
    features = ScoreFeatures.fit(x, min(MAX_DIRECTIONS, n_disclosed // USERS_PER_DIRECTION), rng)
    known = features.compute(x)
    fit = fit_number_posterior if numbers else fit_posterior
    posteriors = [p for p in (fit(known, column, rng) for column in codes.T) if p is not None]
    if not posteriors:
        return None
    weights = np.hstack([p.weights for p in posteriors])
    offsets = np.concatenate([p.offsets for p in posteriors])
    sample = np.arange(len(x)) if len(x) <= MAX_USERS else np.sort(rng.permutation(len(x))[:MAX_USERS])
    scores = known[sample] @ weights + offsets
    z, turns, n_scores = features.polar.encode(x[sample]), [], scores.shape[1]
    for t in range(n_scores * (CYCLES if n_scores > 1 else 1)):
        s = scores[:, t % n_scores]
        turn = fit_turn(z, s)
        if turn is None:
            return None
        z = turn.apply(z, s)
        turns.append(turn)
    return ScoreMap.from_turns(features, weights, offsets, turns)
