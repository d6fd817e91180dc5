"""Where a table leaks: in which directions the classes part, how far, and which pairs of classes.

What is drawn is never what was fitted: the directions that part the classes best are found among one half of the users,
and the other half is drawn along them. Drawn for the users they were fitted to, they part the classes of any table,
the more so the more numbers a vector has, whether it leaks or not.

The numbers are meant for a page that is passed on: no number stands for fewer than ten users. Directions show shifts of
the class means only; a leak hidden in a scale or a parity is seen by the attackers and not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, stats
from scipy.spatial.distance import pdist
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from recveil.core.types import FloatArray, IntArray

__all__ = ["FEWEST", "where_it_leaks"]

FEWEST = 10
"""No number stands for fewer users than this."""

USERS = 50_000
"""Of more users, so many are looked at, the same number of each class where there are enough."""

COLUMNS = 128
"""Of longer vectors, so many principal components are looked at."""

CLASSES = 6
"""So many classes are drawn, the largest first."""

SPECK = 1e-3
LEVEL = 0.95
Floats = NDArray[np.float64]


def where_it_leaks(
    tables: Sequence[FloatArray], codes: IntArray, labels: Sequence[str], *, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """For each table (releases of the same users) its class histograms, class maps and distances between classes.

    All coordinates are in standard deviations within a class, and the ranges are shared, so that tables can be
    compared. Each table has directions of its own: an attacker would look anew as well.

    Args:
        tables: vectors of these users, one table for each release.
        codes: the class of each user, 0..K-1; all must be known.
        labels: the names of the classes.
        rng: deals the halves.
    """
    users, drawn = _halves(codes, len(labels), rng)
    codes = codes[users]
    reduced = [_reduced(x[users], rng) for x in tables]
    placed = [_placed(x, codes, drawn) for x in reduced]
    seen = codes[drawn]
    shown = _shown(np.bincount(seen, minlength=len(labels)))
    means = [_means(z, seen)[shown] for z in placed]
    ranges = [_range([m[:, axis] for m in means if m.size and m.shape[1] > axis]) for axis in (0, 1)]
    return [
        {
            "fitted": int((~drawn).sum()),
            "drawn": int(drawn.sum()),
            "range": ranges,
            "classes": [{"label": labels[k], **_drawn(z[seen == k], ranges)} for k in shown],
            "distances": _distances(x, codes, labels),
        }
        for x, z in zip(reduced, placed, strict=True)
    ]


def _halves(codes: IntArray, n_classes: int, rng: np.random.Generator) -> tuple[IntArray, NDArray[np.bool_]]:
    """The users to look at, and which of them are drawn: every second one of each class."""
    shuffled = rng.permutation(len(codes))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    counts = np.bincount(codes, minlength=n_classes)
    place = np.arange(len(codes)) - (np.cumsum(counts) - counts)[codes[by_class]]
    kept = place < max(USERS // n_classes, 2 * FEWEST)
    return by_class[kept], place[kept] % 2 == 1


def _reduced(x: FloatArray, rng: np.random.Generator) -> Floats:
    """Standardized as for the attackers, in principal components: fewer than the users can tell, and no empty ones."""
    x = StandardScaler().fit_transform(np.asarray(x, dtype=np.float64))
    # A speck of noise, so that a label that stands in a column as it is does not divide by zero.
    x = x + SPECK * rng.standard_normal(x.shape)
    columns = max(1, min(COLUMNS, x.shape[1], len(x) // 4))
    solver = "covariance_eigh" if x.shape[1] <= 8 * COLUMNS else "randomized"
    components = PCA(columns, svd_solver=solver, random_state=int(rng.integers(2**31 - 1)))
    z: Floats = components.fit_transform(x)
    spread = components.explained_variance_
    return z[:, spread > 10 * SPECK**2 * spread[0]]


def _placed(x: Floats, codes: IntArray, drawn: NDArray[np.bool_]) -> Floats:
    """The drawn users along the directions that part the classes best among the others, the most leaking first.

    Two classes part along one direction only; the second is then the one in which the users differ most otherwise.
    """
    x_fit, y_fit = x[~drawn], codes[~drawn]
    directions = _directions(x_fit, y_fit)
    along, fitted = x[drawn] @ directions, x_fit @ directions
    if along.shape[1] == 1 and x.shape[1] > 1:
        slope = np.linalg.lstsq(fitted, x_fit, rcond=None)[0]  # (1, d)
        rest = PCA(1, svd_solver="full").fit(x_fit - fitted @ slope)
        along = np.hstack([along, rest.transform(x[drawn] - along @ slope)])
    # The first class lies to the left, in every table.
    along[:, 0] *= -1 if fitted[y_fit == 0, 0].mean() > fitted[:, 0].mean() else 1
    z: Floats = along / _within(along, codes[drawn])
    return z


def _directions(x: Floats, codes: IntArray) -> Floats:
    """(d, 1 or 2) directions in which the class means lie farthest apart, measured by the spread within the classes.

    Linear discriminants with a shrunk covariance. (Those of scikit-learn take the spread between the classes as the
    difference of two covariances that are shrunk differently, and lose a weak leak in it.)
    """
    unit = x.std(axis=0)
    z, means = x / unit, _means(x / unit, codes)
    within = ledoit_wolf(z - means[codes], assume_centered=True)[0]
    root = linalg.cholesky(within, lower=True)
    apart = (means - z.mean(axis=0)) * np.sqrt(np.bincount(codes))[:, None]
    axes = linalg.svd(linalg.solve_triangular(root, apart.T, lower=True), full_matrices=False)[0]
    count = min(2, len(means) - 1, x.shape[1])
    directions: Floats = linalg.solve_triangular(root.T, axes[:, :count]) / unit[:, None]
    return directions


def _means(z: Floats, codes: IntArray) -> Floats:
    """(K, columns) means of the classes."""
    counts = np.maximum(np.bincount(codes), 1)
    return np.stack([np.bincount(codes, weights=column) / counts for column in z.T], axis=1)


def _within(z: Floats, codes: IntArray) -> Floats:
    """The standard deviation of each column around the class means."""
    deviation: Floats = np.sqrt(np.mean((z - _means(z, codes)[codes]) ** 2, axis=0))
    return np.maximum(deviation, np.finfo(float).tiny)


def _range(means: list[Floats]) -> list[float] | None:
    """From where to where to draw: three deviations around the outermost class means, at round numbers."""
    if not means:
        return None
    ends = np.concatenate(means)
    return [float(np.floor(2 * (ends.min() - 3)) / 2), float(np.ceil(2 * (ends.max() + 3)) / 2)]


def _shown(counts: IntArray) -> list[int]:
    """The largest classes with users enough to be drawn, in the order of the labels."""
    largest = np.argsort(-counts, kind="stable")[:CLASSES]
    return sorted(int(k) for k in largest if counts[k] >= FEWEST)


def _drawn(z: Floats, ranges: Sequence[list[float] | None]) -> dict[str, Any]:
    """One class: its histogram along the first direction, and its map along the first two where there are two."""
    first, second = ranges
    assert first is not None
    place: dict[str, Any] = {"users": len(z), "histogram": _histogram(z[:, 0], first)}
    if z.shape[1] > 1 and second is not None:
        place["map"] = _map(z, first, second)
    return place


def _histogram(z: Floats, limits: list[float]) -> dict[str, list[float]]:
    """Density between edges; who lies beyond the limits is counted at them, and thin bins are joined."""
    bins = int(np.clip(2 * len(z) ** (1 / 3), 4, 30))
    counts, edges = np.histogram(np.clip(z, limits[0], limits[1]), bins, (limits[0], limits[1]))
    starts = _joined(counts)
    edges = edges[[*starts, bins]]
    density = np.add.reduceat(counts, starts) / (len(z) * np.diff(edges))
    return {"edges": _plain(edges), "density": _plain(density)}


def _joined(counts: IntArray) -> list[int]:
    """Where runs of bins begin that hold at least FEWEST users each."""
    starts, inside = [0], 0
    for i, users in enumerate(counts):
        if inside >= FEWEST:
            starts.append(i)
            inside = 0
        inside += int(users)
    return starts if inside >= FEWEST or len(starts) == 1 else starts[:-1]


def _map(z: Floats, first: list[float], second: list[float]) -> dict[str, Any]:
    """The share of the class in each cell of a square grid, row by row; None where there are fewer than FEWEST."""
    bins = int(np.clip(np.sqrt(len(z) / 10), 4, 14))
    counts = np.histogram2d(z[:, 0], z[:, 1], bins, (first, second))[0]  # (first, second)
    shares = [None if users < FEWEST else round(float(users) / len(z), 5) for users in counts.ravel()]
    return {"bins": bins, "shares": shares, "mean": _plain(z[:, :2].mean(axis=0))}


def _distances(x: Floats, codes: IntArray, labels: Sequence[str]) -> list[dict[str, Any]]:
    """The squared distance of the means of each pair of classes, in the metric of the covariance within the classes.

    Corrected for the noise of the means and of the covariance, so that it is 0 on average where nothing leaks (exactly
    so for normal classes). `chance` is what the largest of all pairs stays under in 95 % of the tables without a leak.
    """
    (n, d), K = x.shape, len(labels)
    counts, means = np.bincount(codes, minlength=K), _means(x, codes)
    rest = x - means[codes]
    white = linalg.solve_triangular(linalg.cholesky(rest.T @ rest / (n - K), lower=True), means.T, lower=True).T
    a, b = np.triu_indices(K, 1)
    noise, shrunk = 1 / counts[a] + 1 / counts[b], (n - K - d - 1) / (n - K)
    hotelling = (n - K) * d / (n - K - d + 1) * stats.f.ppf(1 - (1 - LEVEL) / len(a), d, n - K - d + 1)
    value = pdist(white, "sqeuclidean") * shrunk - d * noise
    chance = (hotelling * shrunk - d) * noise
    return [
        {
            "classes": [labels[a[i]], labels[b[i]]],
            "value": round(float(value[i]), 4),
            "chance": round(float(chance[i]), 4),
        }
        for i in np.flatnonzero((counts[a] >= FEWEST) & (counts[b] >= FEWEST))
    ]


def _plain(values: FloatArray) -> list[float]:
    return [round(float(v), 4) for v in values]
