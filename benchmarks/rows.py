"""One row for each released table: attack results and ranking; and rows as Markdown tables.

Shared by the scripts that write `research/results/`. A row keeps the headline advantage fold by fold and the rank of
every test item, so that seeds are pooled rightly: folds of all seeds under one corrected interval, and for the ranking
the mean over seeds for each user first, then the interval over users.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from recveil.attacks.attribute.tasks import Attack
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.types import Attribute, Estimate, Split
from recveil.metrics.ranking import Ranks, collect_seen_items, hit_rate, ndcg, rank
from recveil.studies import pooled_seeds as pool
from recveil.studies.attribute_cells import estimate_change as paired_change
from recveil.studies.attribute_cells import select_spared_users

FOLDS = CrossValidation(5, 1)


def validation_users(n: int, share: float = 0.2) -> np.ndarray:
    """Select the users that settings are chosen on; no table attacks them."""
    return select_spared_users(n, share)


def others(n: int) -> np.ndarray:
    """Select the users who are attacked."""
    return np.setdiff1d(np.arange(n), validation_users(n))


def attacked(x: np.ndarray, secret: Attribute, users: np.ndarray, attackers: dict[str, Attack], seed: int) -> dict:
    """Audit these users; return the numbers of a row."""
    found = audit_attribute(np.ascontiguousarray(x[users]), secret.take(users), attackers, rules=FOLDS, seed=seed)
    return {
        "n": found.n,
        "folds": [round(float(v), 5) for v in found.fold_advantages],
        "bacc": {name: round(a.balanced_accuracy.value, 4) for name, a in found.attacks.items()},
        "chosen": found.fold_shares,
    }


def ranked(score: object, split: Split, part: str = "test") -> Ranks:
    """Rank each held-out item."""
    held, seen = (split.test, (split.train, split.valid)) if part == "test" else (split.valid, (split.train,))
    return rank(score, held, collect_seen_items(*seen))


def write(path: str, row: dict) -> None:
    """Append one line to a log."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read(paths: Iterable[str]) -> list[dict]:
    """Read all rows of these files."""
    return [json.loads(line) for path in paths for line in Path(path).read_text(encoding="utf-8").splitlines()]


def advantage(rows: list[dict]) -> Estimate:
    """Estimate the headline advantage over the folds of all seeds; like the audit's, never below zero."""
    return pool.pool_advantage([v for r in rows for v in r["folds"]], FOLDS.test_share, rows[0]["n"])


def quality(rows: list[dict], measure: object = ndcg, k: int = 10) -> np.ndarray:
    """Average a ranking measure over the seeds, for each user."""
    return pool.average_over_seeds([r["ranks"] for r in rows], measure, k)


def change(rows: list[dict], start: list[dict]) -> Estimate:
    """Estimate the paired change of NDCG@10 against the same models without the method, in per cent.

    A row says itself where its model started (`base`); else it is paired with the row to start from of the same seed
    and machine, for the same seed on another machine is another model.
    """
    return paired_change(quality([_origin(r, start) for r in rows]), quality(rows))


def _origin(row: dict, start: list[dict]) -> dict:
    if "base" in row:
        return {"ranks": row["base"]}
    return next(b for b in start if (b["seed"], b["machine"]) == (row["seed"], row["machine"]))


def line(label: str, rows: list[dict], start: list[dict], names: list[str]) -> str:
    """Format one method: attackers, headline, attacker with both tables, ranking, displacement, seconds."""
    seen = " | ".join(f"{np.mean([r['bacc'][n] for r in rows]):.3f}" for n in names)
    a = advantage(rows)
    same = rows is start
    c = None if same else change(rows, start)
    both = [r["both_tables"] for r in rows if r.get("both_tables") is not None]
    far = [r["displacement"] for r in rows if r.get("displacement") is not None]
    cells = [
        label,
        seen,
        f"{a.value:.3f} [{a.low:.3f}, {a.high:.3f}]",
        f"{np.mean(both):.3f}" if both and not same else "",
        *(f"{quality(rows, m, k).mean():.4f}" for m, k in ((ndcg, 5), (ndcg, 10), (hit_rate, 5), (hit_rate, 10))),
        "" if c is None else f"{c.value:+.1f} [{c.low:+.1f}, {c.high:+.1f}]",
        f"{np.mean(far):.3f}" if far and not same else "",
        "" if same else f"{np.mean([r['seconds'] for r in rows]):.2f}",
        str(len({r["seed"] for r in rows})),
    ]
    return f"| {' | '.join(cells)} |"


HEAD = (
    "advantage",
    "both",
    "NDCG@5",
    "NDCG@10",
    "HR@5",
    "HR@10",
    "NDCG@10 change, %",
    "displacement",
    "seconds",
    "seeds",
)


def table(rows: list[dict], labels: Iterable[str], start: str = "none") -> str:
    """Write the rows of one data set, model and target, one line for each label that was measured."""
    by_label = {name: [r for r in rows if r["method"] == name] for name in labels}
    by_label = {name: mine for name, mine in by_label.items() if mine}
    names = [n for n in next(iter(by_label.values()))[0]["bacc"] if all(n in r["bacc"] for r in rows)]
    lines = [f"| method | {' | '.join(names)} | {' | '.join(HEAD)} |", "| --- " * (len(names) + len(HEAD) + 1) + "|"]
    return "\n".join([*lines, *(line(name, mine, by_label.get(start, []), names) for name, mine in by_label.items())])
