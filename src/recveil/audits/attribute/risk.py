"""How exposed each single user is, from the trials of an audit.

The numbers are about people, so they belong to the file that its reader asked for and to nothing else: no report, no
record and no JSON of an audit holds any of them.

Beliefs of an attacker are calibrated before they are counted. On the inner folds of each trial we learn what the
beliefs look like for users of each class, and from that what they mean for an attacked user, with equal priors. So an
attacker that is always wrong counts as one that is always right, one that is confident without reason counts as
unsure, and a user of a large class is not called exposed for the size of the class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray
from scipy import special, stats

from recveil.audits.attribute.folds import FoldTrial
from recveil.core.errors import DataError, UsageError
from recveil.core.files import check_output_file, write_atomically
from recveil.core.types import FloatArray, IntArray, Scores
from recveil.data.io.ids import Ids

__all__ = ["UserRisk", "check_risk_path", "measure_user_risk", "write_user_risk"]

MIN_PROBABILITY = 1e-4  # a probability under this says no more than this
RIDGE = 1e-8  # of squared log-odds: an attacker that says the same of all users has no spread of its own
TIE_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class UserRisk:
    """The risk of each audited user; entry i of every array belongs to row `users[i]` of the audited table.

    Attributes:
        users: rows of the audited table.
        confidence: mean probability that the attacks gave to the user's true class; NaN for a user never attacked.
        consistency: share of the predictions, over attacks and repeats, that named the true class.
        rank: 1 for the most confidently exposed user; equal users share the mean of their ranks.
        percentile: share of the users, in percent, who are less exposed (half of the equal ones).
        guesses: number of predictions behind the numbers.
        chance: mean of `confidence` and `consistency` where nothing leaks.
    """

    users: IntArray
    confidence: FloatArray
    consistency: FloatArray
    rank: FloatArray
    percentile: FloatArray
    guesses: IntArray
    chance: float


def measure_user_risk(
    trials_by_attack: Mapping[str, Sequence[FoldTrial]], n_users: int, *, users: IntArray | None = None
) -> UserRisk:
    """Measure how confidently and how consistently each user was exposed.

    Every attack counts the same, so leave out those that are there for comparison only.

    Args:
        trials_by_attack: attack -> its trials, as `run_attacks_on_folds` returns them.
        n_users: number of users who took part.
        users: the rows of these users in the audited table, if not 0, 1, 2, ...
    """
    trials = [trial for each in trials_by_attack.values() for trial in each]
    if not trials:
        raise UsageError("No attack was run, so no risk can be measured. Give at least one attack and one fold.")
    users = np.arange(n_users) if users is None else np.asarray(users, dtype=np.int64)
    if len(users) != n_users:
        raise UsageError(f"{len(users):,} rows are named for {n_users:,} users. Name one row for each.")
    attacked = np.concatenate([trial.test.users for trial in trials])
    scores = [_score_trial(trial) for trial in trials]
    guesses = np.bincount(attacked, minlength=n_users)
    confidence = _mean_by_user(attacked, np.concatenate([probability for probability, _ in scores]), guesses)
    consistency = _mean_by_user(attacked, np.concatenate([right for _, right in scores]), guesses)
    rank = stats.rankdata(-confidence, nan_policy="omit")
    known = int((guesses > 0).sum())
    return UserRisk(
        users=users,
        confidence=confidence,
        consistency=consistency,
        rank=rank,
        percentile=100 * (known - rank + 0.5) / max(known, 1),
        guesses=guesses.astype(np.int64),
        chance=1 / trials[0].test.score.shape[1],
    )


def check_risk_path(path: str | Path) -> Path:
    """Return the path if the risks can be written there; call it before long work, not after."""
    path = check_output_file(path)
    if path.suffix.lower() not in (".parquet", ".pq"):
        raise UsageError(
            f"The risks of users are written as Parquet, and {path} ends in '{path.suffix}'. Use .parquet."
        )
    return path


def write_user_risk(path: str | Path, ids: Ids, risks: Mapping[str, UserRisk]) -> None:
    """Write one row for each user and target, under the user's own id, the most exposed first; whole or not at all.

    The file holds personal data: it names users who can be exposed, though not their class.

    Args:
        path: where to; must end in .parquet.
        ids: the ids of all rows of the audited table.
        risks: target -> the risks of the users who took part in its audit.
    """
    path = check_risk_path(path)
    ids = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids)
    if not risks:
        raise UsageError("There is no risk to write: no target was audited.")
    table = pa.concat_tables([_build_table(ids, target, risk) for target, risk in risks.items()])
    with write_atomically(path, private=True) as temporary:
        pyarrow.parquet.write_table(table, temporary)


def _score_trial(trial: FoldTrial) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each attacked user the probability of the true class, and whether it was predicted (ties in part)."""
    belief = _calibrate_beliefs(trial.inner, trial.test.score)
    sure = belief[np.arange(len(belief)), trial.test.truth]
    best = belief >= belief.max(axis=1, keepdims=True) - TIE_TOLERANCE
    right = best[np.arange(len(best)), trial.test.truth] / best.sum(axis=1)
    return sure, right


def _calibrate_beliefs(inner: Scores, score: FloatArray) -> NDArray[np.float64]:
    """Return (n, K) probabilities of the classes given these scores, under equal priors.

    A linear discriminant of the log-beliefs of the inner folds: a class is recognized by the attacker's typical beliefs
    about it, whichever class they name.
    """
    K = score.shape[1]
    z, beliefs = _center_log_beliefs(inner.score), _center_log_beliefs(score)
    member = np.eye(K)[inner.truth]  # (n, K)
    size = member.sum(axis=0)
    means = (member.T @ z) / np.maximum(size, 1)[:, None]
    within = z - means[inner.truth]
    middle = means[size > 0].mean(axis=0)
    means, beliefs = means - middle, beliefs - middle
    # Each class counts the same, as it does in the guesses.
    each = member @ (1 / np.maximum(size, 1)) / np.count_nonzero(size)
    spread = (within * each[:, None]).T @ within + RIDGE * np.eye(K)
    slope = np.linalg.solve(spread, means.T)  # (K, K)
    fit = beliefs @ slope - 0.5 * (means * slope.T).sum(axis=1)
    fit[:, size == 0] = -np.inf
    belief: NDArray[np.float64] = special.softmax(fit, axis=1)
    return belief


def _center_log_beliefs(score: FloatArray) -> NDArray[np.float64]:
    logs = np.log(np.clip(np.asarray(score, dtype=np.float64), MIN_PROBABILITY, None))
    centered: NDArray[np.float64] = logs - logs.mean(axis=1, keepdims=True)
    return centered


def _mean_by_user(attacked: IntArray, values: FloatArray, guesses: IntArray) -> NDArray[np.float64]:
    total = np.bincount(attacked, weights=values, minlength=len(guesses))
    mean: NDArray[np.float64] = np.divide(total, guesses, out=np.full(len(guesses), np.nan), where=guesses > 0)
    return mean


def _build_table(ids: pa.Array | pa.ChunkedArray, target: str, risk: UserRisk) -> pa.Table:
    if len(risk.users) and int(risk.users.max()) >= len(ids):
        raise DataError(
            f"The risk of '{target}' names row {int(risk.users.max())}, and there are {len(ids)} ids. "
            f"Give the ids of all rows of the audited table."
        )
    order = np.argsort(risk.rank, kind="stable")
    numbers = {
        name: pa.array(getattr(risk, name)[order], from_pandas=True)
        for name in ("confidence", "consistency", "rank", "percentile", "guesses")
    }
    n = len(order)
    columns = {"user_id": ids.take(pa.array(risk.users[order])), "target": pa.array([target] * n, pa.string())}
    return pa.table({**columns, **numbers, "chance": pa.array(np.full(n, risk.chance))})
