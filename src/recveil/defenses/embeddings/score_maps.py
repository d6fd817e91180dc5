"""Maps that depend on scores of the vector itself: later users need no label.

A map computes scores s(x) that say how likely each class is, and carries x, in polar coordinates (log length and
direction), by an affine map that changes continuously with the score, so that the carried vectors and their products
are uncorrelated with the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from recveil.core.device import use_one_thread
from recveil.core.types import FloatArray
from recveil.transport.bures_wasserstein import compute_barycenter, compute_transport
from recveil.transport.polar_coordinates import PolarCoordinates

__all__ = ["ScoreFeatures", "ScoreMap", "ScoreTurn", "fit_turn"]

BLOCK_ROWS = 1 << 11
"""Rows that are carried at once; so few stay in the processor's cache, and their buffers need no fresh pages."""

WAVE_ROWS = 1 << 8
"""Rows whose cosines are computed at once."""

KNOTS = 8
"""Scores at which maps are fitted; between two of them maps are blended."""

WINDOW = 0.4
"""Width of the window of users around a knot, in standard deviations of the score."""

TAIL_SHARE = 0.005
"""Share of the users on each side whose scores are cut to the largest and smallest of the others."""

MAX_MATRIX_STEPS = 30
SAME_COVARIANCES = 0.01
"""Relative difference of the covariances of the two sides at which the steps end."""

MAX_BARYCENTER_STEPS = 50


@dataclass(frozen=True, eq=False)
class ScoreFeatures:
    """Features of a vector that scores are weighted sums of: its coordinates and cosines of random directions.

    Weighted sums of such cosines approach those of a Gaussian kernel (Rahimi and Recht 2007), and no user is stored.

    Attributes:
        scale: unit and shortest length of the polar coordinates.
        varies: 1 for columns in which users differ, 0 for the others.
        center: mean of the polar coordinates and of the columns.
        spread: standard deviation of these, 1 where there is none.
        frequencies: (d + 1, D) random directions.
        phases: (D,) random phases.
    """

    scale: torch.Tensor
    varies: torch.Tensor
    center: torch.Tensor
    spread: torch.Tensor
    frequencies: torch.Tensor
    phases: torch.Tensor

    @classmethod
    def fit(cls, x: FloatArray, n_directions: int, rng: np.random.Generator) -> ScoreFeatures:
        """Find the scale of the table, and draw the directions."""
        polar = PolarCoordinates.fit(x)
        columns = np.hstack([polar.encode(x), x])
        spread = columns.std(0)
        varied = spread > 1e-9 * np.abs(columns).max(0, initial=0.0)
        p = x.shape[1] + 1
        parts = (
            np.array([polar.unit, polar.shortest]),
            polar.varies.astype(np.float64),
            columns.mean(0),
            np.where(varied, spread, 1.0),
            rng.standard_normal((p, n_directions)) / np.sqrt(2 * p),
            rng.uniform(0, 2 * np.pi, n_directions),
        )
        return cls(*(torch.from_numpy(np.ascontiguousarray(part)) for part in parts))

    @property
    def polar(self) -> PolarCoordinates:
        """The polar coordinates of the table."""
        unit, shortest = self.scale.tolist()
        return PolarCoordinates(self.varies.numpy() > 0, unit, shortest)

    def compute(self, x: FloatArray) -> FloatArray:
        """Return one row of features for each vector."""
        columns = (np.hstack([self.polar.encode(x), x]) - self.center.numpy()) / self.spread.numpy()
        waves = np.cos(columns[:, : len(self.frequencies)] @ self.frequencies.numpy() + self.phases.numpy())
        return np.hstack([columns, waves])


@dataclass(frozen=True, eq=False)
class ScoreTurn:
    """The continuous map of one score.

    Attributes:
        knots: (k + 2,) scores at which means were measured, between the smallest and the largest that count.
        means: (k, p) mean of the users at each knot.
        A: (k, p, p) matrix at each knot.
        m: (p,) mean of all users.
    """

    knots: FloatArray
    means: FloatArray
    A: FloatArray
    m: FloatArray

    def apply(self, z: FloatArray, s: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Carry rows by their scores, in the precision of the rows; into `out`, which may be `z` itself, if given."""
        inner = self.knots[1:-1]
        cut = np.clip(s, self.knots[0], self.knots[-1])
        left = np.clip(np.searchsorted(inner, cut) - 1, 0, len(inner) - 2)
        order = np.argsort(left.astype(np.int16), kind="stable")  # rows between the same knots are one product
        shares = ((cut - inner[left]) / (inner[left + 1] - inner[left]))[order, None].astype(z.dtype)
        inside, ends = np.clip(shares, 0, 1), np.cumsum(np.bincount(left, minlength=len(inner) - 1))
        moved, out = z[order], np.empty_like(z) if out is None else out
        for k, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            gap = moved[first:last]
            gap -= self.means[k]
            gap -= shares[first:last] * self._steps[0][k]
            change = gap @ self._steps[1][k]
            change *= inside[first:last]
            change += gap @ self.A[k]
            change += self.m
            moved[first:last] = change
        out[order] = moved
        return out

    @cached_property
    def _steps(self) -> tuple[FloatArray, FloatArray]:
        """Differences of the means and of the matrices from each knot to the next."""
        return np.diff(self.means, axis=0), np.diff(self.A, axis=0)


def fit_turn(z: FloatArray, s: FloatArray) -> ScoreTurn | None:
    """Fit the map that makes rows and products of columns uncorrelated with the score; None if all scores are equal.

    Means at a knot are local lines.
    """
    low, high = np.quantile(s, [TAIL_SHARE, 1 - TAIL_SHARE])
    cut, m = np.clip(s, low, high), z.mean(0)
    inner = np.unique(np.quantile(cut, (np.arange(KNOTS) + 0.5) / KNOTS))
    width = WINDOW * float(cut.std())
    if len(inner) < 2 or width <= 1e-12 * max(1.0, float(np.abs(cut).max())):
        return None
    knots = np.concatenate([[min(low, inner[0])], inner, [max(high, inner[-1])]])
    gaps = cut[:, None] - inner
    weights = np.exp(-0.5 * (gaps / width) ** 2)
    weights /= weights.sum(0)
    slope, curve = (weights * gaps).sum(0), (weights * gaps**2).sum(0)
    lines = weights * (curve - slope * gaps)
    means = (lines / lines.sum(0)).T @ z
    matrices = np.stack([np.eye(z.shape[1])] * len(inner))
    return _fit_matrices(ScoreTurn(knots, means, matrices, m), z, s)


def _fit_matrices(turn: ScoreTurn, z: FloatArray, s: FloatArray) -> ScoreTurn:
    """Find matrices that make the products of columns uncorrelated with the score.

    An attacker gains nothing from a covariance that changes with the score, unless it changes in one direction: guesses
    of the class depend on the mean score at a place, not on all of its distribution. So users count for the largest
    score by t and for the smallest by 1 - t, and the covariances of the two sides are carried to their barycenter,
    each user between the two maps by t, until they are the same.
    """
    low, high = turn.knots[0], turn.knots[-1]
    at_knots = ((turn.knots[1:-1] - low) / (high - low))[:, None, None]
    t = (np.clip(s, low, high) - low)[:, None] / (high - low)
    weights = [side / max(float(side.sum()), 1e-300) for side in (1 - t, t)]
    share = torch.tensor([1 - t.mean(), t.mean()], dtype=torch.float64)
    for _ in range(MAX_MATRIX_STEPS):
        moved = turn.apply(z, s) - turn.m
        C = np.stack([(moved * w).T @ moved for w in weights])
        if np.linalg.norm(C[0] - C[1]) <= SAME_COVARIANCES * np.linalg.norm(C[0]):
            break
        sides = torch.from_numpy(C)
        B = compute_barycenter(sides, share, tolerance=1e-7, steps=MAX_BARYCENTER_STEPS)
        to = compute_transport(sides, B).numpy()
        turn = replace(turn, A=turn.A @ ((1 - at_knots) * to[0] + at_knots * to[1]))
    return turn


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """A map that carries every user by scores of the vector alone.

    Attributes:
        features: features of a vector.
        weights: (F, J) weights of the features in each score.
        offsets: (J,) constant of each score.
        knots: (T, k + 2) of each turn; turn t is by score t modulo J.
        means: (T, k, p) of each turn.
        A: (T, k, p, p) of each turn.
        m: (T, p) of each turn.
    """

    features: ScoreFeatures
    weights: torch.Tensor
    offsets: torch.Tensor
    knots: torch.Tensor
    means: torch.Tensor
    A: torch.Tensor
    m: torch.Tensor

    @classmethod
    def from_turns(
        cls, features: ScoreFeatures, weights: FloatArray, offsets: FloatArray, turns: Sequence[ScoreTurn]
    ) -> ScoreMap:
        """Build the map from the maps of the single scores, in turn."""
        stacked = (np.stack(parts) for parts in zip(*((t.knots, t.means, t.A, t.m) for t in turns), strict=True))
        return cls(features, *map(torch.from_numpy, (weights, offsets, *stacked)))

    @classmethod
    def from_tensors(cls, **tensors: torch.Tensor) -> ScoreMap:
        """Build the stage from `to_tensors`."""
        names = ScoreFeatures.__dataclass_fields__
        features = ScoreFeatures(**{name: tensors.pop(name) for name in names})
        return cls(features, **tensors)

    @use_one_thread()
    def __call__(self, x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Carry the users; `codes` are not looked at."""
        return torch.from_numpy(self.carry_rows(x.detach().cpu().numpy())).double().to(x.device)

    def blend_rows(self, x: torch.Tensor, strength: float) -> torch.Tensor:
        """Carry rows this share of the straight way."""
        moved = torch.from_numpy(self.carry_rows(x.numpy())).to(x.dtype)
        return moved if strength == 1.0 else torch.lerp(x, moved, strength)

    def carry_rows(self, x: FloatArray) -> FloatArray:
        """Carry rows by their scores, in single precision: cosines take a tenth of the time."""
        out = np.empty(x.shape, dtype=np.float32)
        for first in range(0, len(x), BLOCK_ROWS):
            rows = x[first : first + BLOCK_ROWS]
            encoded = self.features.polar.encode(rows, np.result_type(rows, np.float32))
            scores = self._compute_scores(encoded, rows)
            z = encoded.astype(np.float32, copy=False)
            for t, turn in enumerate(self._turns):
                turn.apply(z, scores[:, t % scores.shape[1]], out=z)
            out[first : first + BLOCK_ROWS] = self.features.polar.decode(z)
        return out

    def _compute_scores(self, encoded: FloatArray, x: FloatArray) -> FloatArray:
        """Return the weighted sums of the features."""
        linear, waved, frequencies, phases, offsets = self._score_parts
        p, center = len(frequencies), self.features.center.numpy().astype(encoded.dtype)
        scores = np.empty((len(x), len(offsets)))
        for first in range(0, len(x), WAVE_ROWS):
            here = slice(first, first + WAVE_ROWS)
            places = (encoded[here] - center[:p]).astype(np.float32, copy=False)
            columns = (x[here] - center[p:]).astype(np.float32, copy=False)
            angles = places @ frequencies
            angles += phases
            # NumPy's cosine of single precision takes a third of the time of torch's.
            parts = ((places, linear[:, :p]), (columns, linear[:, p:]), (np.cos(angles, out=angles), waved))
            scores[here] = sum(_sum_weighted(*part) for part in parts)
        return scores + offsets

    @cached_property
    def _score_parts(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """What scores are computed from, in single precision; the spread of the columns is part of the weights."""
        features, p = self.features, len(self.features.frequencies)
        linear, waved = self.weights[: len(features.spread)], self.weights[len(features.spread) :]
        single = ((linear / features.spread[:, None]).mT, waved.mT, features.frequencies / features.spread[:p, None])
        parts = [part.float().contiguous().numpy() for part in (*single, features.phases)]
        return parts[0], parts[1], parts[2], parts[3], self.offsets.numpy()

    @cached_property
    def _turns(self) -> list[ScoreTurn]:
        """The maps of the single scores in single precision."""
        singles = ("means", "A", "m")
        return [
            replace(t, **{name: getattr(t, name).astype(np.float32) for name in singles}) for t in self.list_turns()
        ]

    def list_turns(self) -> list[ScoreTurn]:
        """List the maps of the single scores, in turn."""
        parts = (self.knots.numpy(), self.means.numpy(), self.A.numpy(), self.m.numpy())
        return [ScoreTurn(*turn) for turn in zip(*parts, strict=True)]

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors that make up the map, by name."""
        own = ("weights", "offsets", "knots", "means", "A", "m")
        features = {name: self.features.__dict__[name] for name in ScoreFeatures.__dataclass_fields__}
        return {**features, **{name: self.__dict__[name] for name in own}}

    def has_shape(self, n_cells: int, dimensions: int) -> bool:
        """Whether the map is for vectors of so many dimensions, and its parts fit together."""
        d, waves, turns = dimensions, self.features.phases.shape[0], self.knots.shape[0]
        columns, p = 2 * d + 1, self.m.shape[-1]
        k, J = self.knots.shape[-1] - 2, self.offsets.shape[0]
        expected = {
            "scale": (2,),
            "varies": (d,),
            "center": (columns,),
            "spread": (columns,),
            "frequencies": (d + 1, waves),
            "phases": (waves,),
            "weights": (columns + waves, J),
            "offsets": (J,),
            "knots": (turns, k + 2),
            "means": (turns, k, p),
            "A": (turns, k, p, p),
            "m": (turns, p),
        }
        shapes = {name: tuple(tensor.shape) for name, tensor in self.to_tensors().items()}
        return shapes == expected and p == d + 1 and k >= 2 and J >= 1


def _sum_weighted(features: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the sums of the features by each row of weights, one after another: few columns are slow as a product."""
    return np.stack([features @ row for row in weights], axis=1).astype(np.float64)
