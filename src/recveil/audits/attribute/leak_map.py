"""Where a table leaks: directions in which the classes separate, how far, and which pairs of classes.

The directions that separate the classes best are found on one half of the users, and the other half is drawn along
them. Drawn for the users they were fitted to, such directions separate the classes of any table, whether it leaks or
not, and the more so the longer the vectors.

The numbers are meant for a page that is passed on, so histograms and maps join or hide cells of fewer than ten users.
Directions show shifts of the class means only; a leak hidden in a scale or a parity is found by the attackers and not
here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, stats
from scipy.spatial.distance import pdist
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from recveil.core.result_parts import ClassDistance, ClassPicture, Histogram, LeakMap, UserMap
from recveil.core.types import FloatArray, IntArray

__all__ = ["MIN_USERS_PER_NUMBER", "map_leaks"]

MIN_USERS_PER_NUMBER = 10
"""Bins of fewer users are joined, cells and classes of fewer users left out; their sum follows from the others."""

MAX_USERS = 50_000
"""Larger tables are sampled to this many users, evenly over the classes."""

MAX_COMPONENTS = 128
"""Longer vectors are reduced to this many principal components."""

MAX_CLASSES = 6
"""Classes that are drawn, the largest first."""

NOISE_SCALE = 1e-3
LEVEL = 0.95
Floats = NDArray[np.float64]


def map_leaks(
    tables: Sequence[FloatArray], codes: IntArray, labels: Sequence[str], *, rng: np.random.Generator
) -> list[LeakMap]:
    """Return for each table (releases of the same users) histograms, maps and distances of its classes.

    Coordinates are in standard deviations within a class and the ranges are shared, so that tables can be compared.
    Each table has directions of its own, since an attacker would look again as well.

    Args:
        tables: vectors of these users, one table for each release.
        codes: the class of each user, 0..K-1; all must be known.
        labels: the names of the classes.
        rng: splits the users into halves.
    """
    users, is_drawn = _split_halves(codes, len(labels), rng)
    codes = codes[users]
    reduced = [_reduce_columns(x[users], rng) for x in tables]
    projected = [_project_users(x, codes, is_drawn) for x in reduced]
    drawn_codes = codes[is_drawn]
    shown = _select_classes(np.bincount(drawn_codes, minlength=len(labels)))
    means = [_class_means(z, drawn_codes)[shown] for z in projected]
    ranges = [_choose_range([m[:, axis] for m in means if m.size and m.shape[1] > axis]) for axis in (0, 1)]
    return [
        LeakMap(
            n_fitted=int((~is_drawn).sum()),
            n_drawn=int(is_drawn.sum()),
            ranges=ranges,
            classes=[_draw_class(labels[k], z[drawn_codes == k], ranges) for k in shown],
            distances=_measure_distances(x, codes, labels),
        )
        for x, z in zip(reduced, projected, strict=True)
    ]


def _split_halves(codes: IntArray, n_classes: int, rng: np.random.Generator) -> tuple[IntArray, NDArray[np.bool_]]:
    """Sample the users and mark every second one of each class as drawn."""
    shuffled = rng.permutation(len(codes))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    counts = np.bincount(codes, minlength=n_classes)
    place = np.arange(len(codes)) - (np.cumsum(counts) - counts)[codes[by_class]]
    kept = place < max(MAX_USERS // n_classes, 2 * MIN_USERS_PER_NUMBER)
    return by_class[kept], place[kept] % 2 == 1


def _reduce_columns(x: FloatArray, rng: np.random.Generator) -> Floats:
    """Standardize and reduce to principal components that the users can resolve."""
    x = StandardScaler().fit_transform(np.asarray(x, dtype=np.float64))
    # A speck of noise, so that a label that stands in a column as it is does not divide by zero.
    x = x + NOISE_SCALE * rng.standard_normal(x.shape)
    columns = max(1, min(MAX_COMPONENTS, x.shape[1], len(x) // 4))
    solver = "covariance_eigh" if x.shape[1] <= 8 * MAX_COMPONENTS else "randomized"
    components = PCA(columns, svd_solver=solver, random_state=int(rng.integers(2**31 - 1)))
    z: Floats = components.fit_transform(x)
    spread = components.explained_variance_
    return z[:, spread > 10 * NOISE_SCALE**2 * spread[0]]


def _project_users(x: Floats, codes: IntArray, drawn: NDArray[np.bool_]) -> Floats:
    """Project the drawn users on the directions that separate the other half best, the strongest first.

    Two classes separate along one direction only; the second is then the one in which users differ most otherwise.
    """
    x_fit, y_fit = x[~drawn], codes[~drawn]
    directions = _find_directions(x_fit, y_fit)
    along, fitted = x[drawn] @ directions, x_fit @ directions
    if along.shape[1] == 1 and x.shape[1] > 1:
        slope = np.linalg.lstsq(fitted, x_fit, rcond=None)[0]  # (1, d)
        rest = PCA(1, svd_solver="full").fit(x_fit - fitted @ slope)
        along = np.hstack([along, rest.transform(x[drawn] - along @ slope)])
    # The first class lies to the left, in every table.
    along[:, 0] *= -1 if fitted[y_fit == 0, 0].mean() > fitted[:, 0].mean() else 1
    z: Floats = along / _deviation_within(along, codes[drawn])
    return z


def _find_directions(x: Floats, codes: IntArray) -> Floats:
    """Return (d, 1 or 2) directions in which the class means lie farthest apart, in spreads within the classes.

    Linear discriminants with a shrunk covariance. (Those of scikit-learn take the spread between the classes as the
    difference of two covariances that are shrunk differently, and lose a weak leak in it.)
    """
    unit = x.std(axis=0)
    z, means = x / unit, _class_means(x / unit, codes)
    within = ledoit_wolf(z - means[codes], assume_centered=True)[0]
    root = linalg.cholesky(within, lower=True)
    apart = (means - z.mean(axis=0)) * np.sqrt(np.bincount(codes))[:, None]
    axes = linalg.svd(linalg.solve_triangular(root, apart.T, lower=True), full_matrices=False)[0]
    count = min(2, len(means) - 1, x.shape[1])
    directions: Floats = linalg.solve_triangular(root.T, axes[:, :count]) / unit[:, None]
    return directions


def _class_means(z: Floats, codes: IntArray) -> Floats:
    """Return (K, columns) means of the classes."""
    counts = np.maximum(np.bincount(codes), 1)
    return np.stack([np.bincount(codes, weights=column) / counts for column in z.T], axis=1)


def _deviation_within(z: Floats, codes: IntArray) -> Floats:
    """Return the standard deviation of each column around the class means."""
    deviation: Floats = np.sqrt(np.mean((z - _class_means(z, codes)[codes]) ** 2, axis=0))
    return np.maximum(deviation, np.finfo(float).tiny)


def _choose_range(means: list[Floats]) -> list[float] | None:
    """Return limits three deviations around the outermost class means, at round numbers."""
    if not means:
        return None
    ends = np.concatenate(means)
    return [float(np.floor(2 * (ends.min() - 3)) / 2), float(np.ceil(2 * (ends.max() + 3)) / 2)]


def _select_classes(counts: IntArray) -> list[int]:
    """Select the largest classes with users enough to be drawn, in the order of the labels."""
    largest = np.argsort(-counts, kind="stable")[:MAX_CLASSES]
    return sorted(int(k) for k in largest if counts[k] >= MIN_USERS_PER_NUMBER)


def _draw_class(label: str, z: Floats, ranges: Sequence[list[float] | None]) -> ClassPicture:
    """Draw one class: its histogram along the first direction, and its map along the first two if there are two."""
    first, second = ranges
    assert first is not None
    grid = _build_map(z, first, second) if z.shape[1] > 1 and second is not None else None
    return ClassPicture(label=label, users=len(z), histogram=_build_histogram(z[:, 0], first), map=grid)


def _build_histogram(z: Floats, limits: list[float]) -> Histogram:
    """Return density between edges; users beyond the limits count at them, and thin bins are joined."""
    bins = int(np.clip(2 * len(z) ** (1 / 3), 4, 30))
    counts, edges = np.histogram(np.clip(z, limits[0], limits[1]), bins, (limits[0], limits[1]))
    starts = _join_thin_bins(counts)
    edges = edges[[*starts, bins]]
    density = np.add.reduceat(counts, starts) / (len(z) * np.diff(edges))
    return Histogram(edges=_round_values(edges), density=_round_values(density))


def _join_thin_bins(counts: IntArray) -> list[int]:
    """Return the starts of runs of bins that hold at least MIN_USERS_PER_NUMBER users each."""
    starts, inside = [0], 0
    for i, users in enumerate(counts):
        if inside >= MIN_USERS_PER_NUMBER:
            starts.append(i)
            inside = 0
        inside += int(users)
    return starts if inside >= MIN_USERS_PER_NUMBER or len(starts) == 1 else starts[:-1]


def _build_map(z: Floats, first: list[float], second: list[float]) -> UserMap:
    """Return the share of the class in each cell of a square grid; None for cells of too few users."""
    bins = int(np.clip(np.sqrt(len(z) / 10), 4, 14))
    counts = np.histogram2d(z[:, 0], z[:, 1], bins, (first, second))[0]  # (first, second)
    shares = [None if n < MIN_USERS_PER_NUMBER else round(float(n) / len(z), 5) for n in counts.ravel()]
    return UserMap(bins=bins, shares=shares, mean=_round_values(z[:, :2].mean(axis=0)))


def _measure_distances(x: Floats, codes: IntArray, labels: Sequence[str]) -> list[ClassDistance]:
    """Return the squared distance of the means of each pair of classes, in the metric within the classes.

    Corrected for the noise of the means and of the covariance, so that it is 0 on average where nothing leaks (exactly
    so for normal classes). `chance` is what the largest of all pairs stays under in 95 % of the tables without a leak.
    """
    (n, d), K = x.shape, len(labels)
    counts, means = np.bincount(codes, minlength=K), _class_means(x, codes)
    rest = x - means[codes]
    white = linalg.solve_triangular(linalg.cholesky(rest.T @ rest / (n - K), lower=True), means.T, lower=True).T
    a, b = np.triu_indices(K, 1)
    noise, shrunk = 1 / counts[a] + 1 / counts[b], (n - K - d - 1) / (n - K)
    hotelling = (n - K) * d / (n - K - d + 1) * stats.f.ppf(1 - (1 - LEVEL) / len(a), d, n - K - d + 1)
    value = pdist(white, "sqeuclidean") * shrunk - d * noise
    chance = (hotelling * shrunk - d) * noise
    return [
        ClassDistance(
            classes=[labels[a[i]], labels[b[i]]],
            value=round(float(value[i]), 4),
            chance=round(float(chance[i]), 4),
        )
        for i in np.flatnonzero((counts[a] >= MIN_USERS_PER_NUMBER) & (counts[b] >= MIN_USERS_PER_NUMBER))
    ]


def _round_values(values: FloatArray) -> list[float]:
    return [round(float(v), 4) for v in values]
