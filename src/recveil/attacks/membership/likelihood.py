"""Membership by likelihood: is what the model does for a user more like models that had the user, or that had not?

Reference models are trained like the target, each on a part of the users. A signal says how well a model knows what a
user touched: one number for each row, a row being a user or a user-item pair. `lira` compares the target's signal with
those of the reference models that were trained with the row and without it (Carlini et al. 2022); `rmia` asks how many
other rows are outdone by it (Zarifzadeh et al. 2024). Both take arrays:

    signal[row, r]   the signal of reference model r
    inside[row, r]   whether model r was trained on this row
    observed[row]    the signal of the target

Departs: both attacks were made for classifiers; signals here are those of recommenders, from the scores of all items.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from recveil.attacks.membership.difference_vectors import flatten_histories
from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.types import FloatArray, IntArray

__all__ = ["SIGNALS", "Signals", "lira", "pair_signals", "rmia", "user_means"]

SIGNALS = ("log-odds", "bpr-margin", "rank-percentile")
SPREADS = ("row", "pooled")

BLOCK = 1 << 24
"""Scores held at once."""

Inside = NDArray[np.bool_]
ScoreFunction = Callable[[IntArray], FloatArray]
"""Users to their scores of all items, (len(users), n_items): `Recommender.score`."""


@dataclass(frozen=True, eq=False)
class Signals:
    """A signal for each user-item pair of the histories, user by user."""

    user: IntArray
    item: IntArray
    value: FloatArray


def lira(signal: FloatArray, inside: Inside, observed: FloatArray, *, spread: str = "row") -> FloatArray:
    """The log likelihood ratio of each row: Gaussians of the models with it against those without.

    `spread="row"` takes the variances of each row from its own models, at least two of each kind; `"pooled"` takes one
    for all rows with and one for all without, which is better with few models. Where no model had any row, the score
    is how far the target is above the models without the row (the offline attack), as the log of that probability.
    """
    _check(signal, inside, observed)
    if spread not in SPREADS:
        raise unknown_name("spread", spread, SPREADS)
    without = _log_density if inside.any() else _log_exceeds
    least = 2 if spread == "row" else 1
    out = without(observed, *_gaussian(signal, ~inside, spread, least, "without"))
    if not inside.any():
        return out
    return _log_density(observed, *_gaussian(signal, inside, spread, least, "with")) - out


def rmia(
    signal: FloatArray,
    inside: Inside,
    observed: FloatArray,
    *,
    others: NDArray[np.bool_] | None = None,
    gamma: float = 1.0,
    offline: float | None = None,
) -> FloatArray:
    """The share of other rows z that each row x outdoes: `(p(x|target)/p(x)) / (p(z|target)/p(z)) >= gamma`.

    Signals are log probabilities here (of log-odds: their `log_sigmoid`). p(x) is the mean probability over all
    reference models, half from those with the row and half from those without. With `offline` = a, for want of models
    with it, `((1 + a) p_without + 1 - a) / 2`. `others` says which rows are compared with, all of them by default; no
    row is compared with itself.
    """
    _check(signal, inside, observed)
    if not 0 < gamma < np.inf:
        raise UsageError(f"gamma must be a positive number; got {gamma:g}.")
    if offline is not None and not 0 <= offline <= 1:
        raise UsageError(f"offline must be between 0 and 1; got {offline:g}.")
    ratio = observed - _log_prior(signal, inside, offline)
    chosen = np.ones(len(ratio), bool) if others is None else np.asarray(others, bool)
    beaten = np.searchsorted(np.sort(ratio[chosen]), ratio - np.log(gamma), side="right")
    itself = chosen & (gamma <= 1)  # a row is at least as good as itself, unless it must be better
    count = int(chosen.sum()) - chosen
    if (count < 1).any():
        raise UsageError("There is no other row to compare with. Mark at least two rows in `others`.")
    return np.asarray((beaten - itself) / count)


def pair_signals(score: ScoreFunction, histories: Sequence[IntArray], kind: str) -> Signals:
    """How well a model knows each item that each user touched; user u of the model is row u of the histories.

    `"log-odds"` is the score itself, which is the log-odds for models trained by binary cross-entropy; `"bpr-margin"`
    the score less the mean score of what the user did not touch; `"rank-percentile"` the share of untouched items that
    score lower (ties count half), kept off 0 and 1 by half an item so that its log-odds exist.
    """
    if kind not in SIGNALS:
        raise unknown_name("signal", kind, SIGNALS)
    user, item = flatten_histories(histories)
    n = len(histories)
    lengths = np.bincount(user, minlength=n)
    if n == 0 or (lengths == 0).any():
        raise DataError(f"{int((lengths == 0).sum())} of {n} users have an empty history. Leave these users out.")
    value, at, width = np.empty(len(user)), 0, 1  # one user first, to see how many items there are
    while at < n:
        users = np.arange(at, min(n, at + width))
        scores = np.asarray(score(users), dtype=np.float64)
        rows = slice(*np.searchsorted(user, [at, at + len(users)]))
        value[rows] = _signals(scores, user[rows] - at, item[rows], kind)
        at, width = at + len(users), max(1, BLOCK // scores.shape[1])
    return Signals(user, item, value)


def user_means(user: IntArray, value: FloatArray) -> FloatArray:
    """The mean over each user's pairs: of signals, or of scores that pairs were given."""
    return np.asarray(np.bincount(user, value) / np.bincount(user))


def _signals(scores: FloatArray, user: IntArray, item: IntArray, kind: str) -> FloatArray:
    """Of the pairs of one block of users."""
    n_items = scores.shape[1]
    if item.min() < 0 or item.max() >= n_items:
        raise DataError(f"Histories name items from {item.min()} to {item.max()}; the model scores 0 to {n_items - 1}.")
    own = scores[user, item]
    if kind == "log-odds":
        return own
    touched = np.zeros(scores.shape, dtype=bool)
    touched[user, item] = True
    left = n_items - touched.sum(1)
    if (left == 0).any():
        raise DataError(f"{int((left == 0).sum())} users touched every item: there is nothing to compare with.")
    if kind == "bpr-margin":
        return np.asarray(own - (np.where(touched, 0, scores).sum(1) / left)[user])
    order = torch.from_numpy(np.where(touched, np.inf, scores)).sort(1).values
    below, upto = (_places(order, own, user, right=right) for right in (False, True))
    return np.asarray((below + 0.5 * (upto - below) + 0.5) / (left[user] + 1))


def _places(order: torch.Tensor, value: FloatArray, user: IntArray, *, right: bool) -> FloatArray:
    """How many of its row's sorted numbers are below each value (or, to the right, at most it)."""
    starts = np.searchsorted(user, np.arange(len(order)))
    place = np.arange(len(user)) - starts[user]
    asked = np.zeros((len(order), int(place.max()) + 1))
    asked[user, place] = value
    found: FloatArray = torch.searchsorted(order, torch.from_numpy(asked), right=right).numpy()[user, place]
    return found


def _gaussian(signal: FloatArray, mask: Inside, spread: str, least: int, kind: str) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each row over the models of one kind."""
    count = mask.sum(1)
    if (count < least).any():
        raise DataError(
            f"{int((count < least).sum())} of {len(count)} rows have fewer than {least} reference models {kind} them. "
            "Train more, or use spread='pooled'."
        )
    mean = np.where(mask, signal, 0).sum(1) / count
    squares = np.where(mask, (signal - mean[:, None]) ** 2, 0).sum(1)
    free = count - 1  # each row has lost one to its mean
    if not free.any():
        raise DataError(f"Every row has a single reference model {kind} it: no variance follows from that. Train more.")
    variance = squares / free if spread == "row" else np.full(len(mean), squares.sum() / free.sum())
    return mean, np.maximum(variance, 1e-30)


def _log_density(x: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * ((x - mean) ** 2 / variance + np.log(2 * np.pi * variance)))


def _log_exceeds(x: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    return np.asarray(log_ndtr((x - mean) / np.sqrt(variance)))


def _log_prior(signal: FloatArray, inside: Inside, offline: float | None) -> FloatArray:
    """The log of p(x) by the reference models."""
    out = _log_mean(signal, ~inside, "without")
    if offline is not None:
        return np.asarray(np.logaddexp(np.log1p(offline) + out, np.log(max(1 - offline, 1e-300))) - np.log(2))
    return np.asarray(np.logaddexp(_log_mean(signal, inside, "with"), out) - np.log(2))


def _log_mean(signal: FloatArray, mask: Inside, kind: str) -> FloatArray:
    count = mask.sum(1)
    if (count == 0).any():
        raise DataError(f"{int((count == 0).sum())} of {len(count)} rows have no reference model {kind} them.")
    return np.asarray(logsumexp(np.where(mask, signal, -np.inf), axis=1) - np.log(count))


def _check(signal: FloatArray, inside: Inside, observed: FloatArray) -> None:
    if signal.ndim != 2 or inside.shape != signal.shape or observed.shape != signal.shape[:1]:
        raise DataError(
            f"Signals have shape {signal.shape}, `inside` {inside.shape}, the observed {observed.shape}: need (n, R), "
            "(n, R) and (n,)."
        )
    if not (np.isfinite(signal).all() and np.isfinite(observed).all()):
        raise DataError("Signals must be finite numbers. Leave out the rows that have none.")
