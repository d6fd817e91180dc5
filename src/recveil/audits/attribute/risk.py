"""How exposed each single user is, from the trials of an audit.

The numbers are about people, so they belong to the file that its reader asked for and to nothing else: no report, no
record and no JSON of an audit holds any of them.

What an attacker says is read before it is counted. On the inner folds of each trial we learn what its beliefs look like
for users of each class, and from that what they mean for a user under attack, each class taken as equally likely
beforehand. So an attacker that is always wrong counts as one that is always right, one that is sure without reason
counts as unsure, and a user of a large class is not called exposed for the size of the class.
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

from recveil.audits.attribute.folds import Trial
from recveil.core.errors import DataError, UsageError
from recveil.core.files import check_parent, writing
from recveil.core.types import FloatArray, IntArray, Scores
from recveil.data.io.ids import Ids

__all__ = ["UserRisk", "check_risk_path", "user_risk", "write_risk"]

SURE = 1e-4  # a probability under this says no more than this
RIDGE = 1e-8  # of squared log-odds: an attacker that says the same of all users has no spread of its own
TIE = 1e-6


@dataclass(frozen=True, eq=False)
class UserRisk:
    """The risk of each user of a game; entry i of every array belongs to row `users[i]` of the audited table.

    Args:
        users: rows of the audited table.
        confidence: the mean probability that the attackers gave to the user's true class; NaN for a user whom none met.
        consistency: the share of the guesses, over attackers and deals, that named the true class.
        rank: 1 for the most confidently exposed user; users who are equal share the mean of their ranks.
        percentile: the share of the users, in percent, who are less exposed (of equals, half).
        guesses: how many guesses stand behind it.
        chance: what `confidence` and `consistency` are on average where nothing leaks.
    """

    users: IntArray
    confidence: FloatArray
    consistency: FloatArray
    rank: FloatArray
    percentile: FloatArray
    guesses: IntArray
    chance: float


def user_risk(played: Mapping[str, Sequence[Trial]], n_users: int, *, users: IntArray | None = None) -> UserRisk:
    """How confidently and how consistently each of the `n_users` users of a game was exposed.

    Every attacker counts the same, so leave out those that are there for comparison only.

    Args:
        played: attacker -> its trials, as `play_folds` returns them.
        n_users: how many users took part.
        users: the rows of these users in the audited table, if not 0, 1, 2, ...
    """
    trials = [trial for each in played.values() for trial in each]
    if not trials:
        raise UsageError("No attacker has played, so no risk can be told. Give at least one attacker and one fold.")
    users = np.arange(n_users) if users is None else np.asarray(users, dtype=np.int64)
    if len(users) != n_users:
        raise UsageError(f"{len(users):,} rows are named for {n_users:,} users. Name one row for each.")
    met = np.concatenate([trial.test.users for trial in trials])
    told = [_told(trial) for trial in trials]
    guesses = np.bincount(met, minlength=n_users)
    confidence = _mean(met, np.concatenate([sure for sure, _ in told]), guesses)
    consistency = _mean(met, np.concatenate([right for _, right in told]), guesses)
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
    """The path, if the risks can be written there; call it before long work, not after."""
    path = check_parent(path)
    if path.suffix.lower() not in (".parquet", ".pq"):
        raise UsageError(
            f"The risks of users are written as Parquet, and {path} ends in '{path.suffix}'. Use .parquet."
        )
    return path


def write_risk(path: str | Path, ids: Ids, risks: Mapping[str, UserRisk]) -> None:
    """Write one row for each user and target, under the user's own id, the most exposed first; whole or not at all.

    The file holds personal data: it says who can be exposed, though not as what.

    Args:
        path: where to; must end in .parquet.
        ids: the ids of all rows of the audited table.
        risks: target -> the risks of the users who took part in its game.
    """
    path = check_risk_path(path)
    ids = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids)
    if not risks:
        raise UsageError("There is no risk to write: no target was audited.")
    table = pa.concat_tables([_rows(ids, target, risk) for target, risk in risks.items()])
    with writing(path) as temporary:
        pyarrow.parquet.write_table(table, temporary)


def _told(trial: Trial) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each user under attack: the probability of the true class, and whether it was guessed (ties in part)."""
    belief = _read(trial.inner, trial.test.score)
    sure = belief[np.arange(len(belief)), trial.test.truth]
    best = belief >= belief.max(axis=1, keepdims=True) - TIE
    right = best[np.arange(len(best)), trial.test.truth] / best.sum(axis=1)
    return sure, right


def _read(inner: Scores, score: FloatArray) -> NDArray[np.float64]:
    """(n, K) probabilities of the classes given these scores, under equal priors.

    A linear discriminant of the log-beliefs of the inner folds: a class is recognized by what the attacker typically
    says of it, whichever name it gives to it.
    """
    K = score.shape[1]
    z, told = _logs(inner.score), _logs(score)
    member = np.eye(K)[inner.truth]  # (n, K)
    size = member.sum(axis=0)
    means = (member.T @ z) / np.maximum(size, 1)[:, None]
    within = z - means[inner.truth]
    middle = means[size > 0].mean(axis=0)
    means, told = means - middle, told - middle
    # Each class counts the same, as it does in the guesses.
    each = member @ (1 / np.maximum(size, 1)) / np.count_nonzero(size)
    spread = (within * each[:, None]).T @ within + RIDGE * np.eye(K)
    slope = np.linalg.solve(spread, means.T)  # (K, K)
    fit = told @ slope - 0.5 * (means * slope.T).sum(axis=1)
    fit[:, size == 0] = -np.inf
    belief: NDArray[np.float64] = special.softmax(fit, axis=1)
    return belief


def _logs(score: FloatArray) -> NDArray[np.float64]:
    logs = np.log(np.clip(np.asarray(score, dtype=np.float64), SURE, None))
    centered: NDArray[np.float64] = logs - logs.mean(axis=1, keepdims=True)
    return centered


def _mean(met: IntArray, values: FloatArray, guesses: IntArray) -> NDArray[np.float64]:
    total = np.bincount(met, weights=values, minlength=len(guesses))
    mean: NDArray[np.float64] = np.divide(total, guesses, out=np.full(len(guesses), np.nan), where=guesses > 0)
    return mean


def _rows(ids: pa.Array | pa.ChunkedArray, target: str, risk: UserRisk) -> pa.Table:
    if len(risk.users) and int(risk.users.max()) >= len(ids):
        raise DataError(
            f"The risk of '{target}' speaks of row {int(risk.users.max())}, and there are {len(ids)} ids. "
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
