"""The result of a command as one plain dict: what `--json` prints, what is kept on disk, what the page is made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from recveil.audits.attribute.activity import by_activity
from recveil.audits.attribute.folds import Folds
from recveil.audits.attribute.leak_map import where_it_leaks
from recveil.audits.attribute.numeric import NumberAudit
from recveil.audits.catalog import PANELS
from recveil.audits.verdicts import MARGIN, TargetAudit
from recveil.core.files import writing
from recveil.core.random import generator
from recveil.core.types import Attribute, FloatArray, IntArray, Record
from recveil.metrics import ranking
from recveil.report.summary import SCHEMA

__all__ = ["audits", "details", "header", "merged", "protocol", "utility", "write_json", "write_records"]

KS = (5, 10, 20)


def header(command: str, argv: list[str]) -> dict[str, Any]:
    """Who made this document."""
    return {"schema": SCHEMA, "recveil": version("recveil"), "command": command, "argv": argv}


def protocol(panel: str, rules: Folds, *, seed: int, margin: float = MARGIN, permutations: int = 0) -> dict[str, Any]:
    """Under which rules the attacks were run."""
    return {
        "panel": panel,
        "attacks": list(PANELS[panel]),
        "folds": rules.folds,
        "seeds": rules.seeds,
        "inner_folds": rules.inner,
        "margin": margin,
        "attacker": "adaptive",
        "surface": "user vectors",
        "p_value": f"{permutations} permutations of the labels" if permutations else "corrected resampled t, one-sided",
        "seed": seed,
    }


def audits(results: Iterable[TargetAudit | NumberAudit]) -> dict[str, Any]:
    """Audits by the name of their target."""
    return {result.target: result.to_dict() for result in results}


def details(
    tables: Sequence[FloatArray],
    targets: Sequence[Attribute],
    audited: Sequence[Sequence[TargetAudit]],
    rules: Folds,
    *,
    seed: int,
    activity: IntArray | None = None,
) -> list[dict[str, dict[str, Any]]]:
    """For each table and target: in which directions the classes part, and how well users of each activity are guessed.

    Args:
        tables: vectors of the same users, one table for each release.
        targets: what was attacked.
        audited: for each table the audits of all targets.
        rules: of the audits.
        seed: deals the halves.
        activity: interactions of each user, where they are known.
    """
    told: list[dict[str, dict[str, Any]]] = [{} for _ in tables]
    for i, target in enumerate(targets):
        users, labels = audited[0][i].users, audited[0][i].labels
        codes = np.unique(target.codes[users], return_inverse=True)[1].astype(np.int64)
        places = where_it_leaks([x[users] for x in tables], codes, labels, rng=generator(seed, "where", target.name))
        for part, where, results in zip(told, places, audited, strict=True):
            part[target.name] = {"where": where}
            if activity is not None:
                part[target.name]["activity"] = by_activity(results[i], activity, test_share=rules.test_share)
    return told


def merged(targets: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The targets with more said of each."""
    return {name: {**target, **more.get(name, {})} for name, target in targets.items()}


def utility(before: ranking.Ranks, after: ranking.Ranks, attributes: Iterable[Attribute]) -> dict[str, Any]:
    """Ranking quality before and after, the paired difference, and who pays: the same for each class."""
    measures = {f"{name}@{k}": (f, k) for name, f in (("hr", ranking.hit_rate), ("ndcg", ranking.ndcg)) for k in KS}
    values = {name: (f(before, k), f(after, k)) for name, (f, k) in measures.items()}
    whole = np.ones(len(before.users), dtype=bool)
    classes = {}
    for attribute in attributes:
        codes = attribute.codes[before.users]
        headline = {name: values[name] for name in ("hr@10", "ndcg@10")}
        classes[attribute.name] = {
            label: _compared(headline, codes == code) for code, label in enumerate(attribute.labels)
        }
    return {**_compared(values, whole), "per_class": classes}


def _compared(values: Mapping[str, tuple[Any, Any]], rows: Any) -> dict[str, Any]:
    return {
        "before": {name: ranking.mean(b[rows]).to_dict() for name, (b, _) in values.items()},
        "after": {name: ranking.mean(a[rows]).to_dict() for name, (_, a) in values.items()},
        "difference": {name: ranking.difference(a[rows], b[rows]).to_dict() for name, (b, a) in values.items()},
    }


def write_json(path: str | Path, document: Mapping[str, Any]) -> None:
    """One JSON file, whole or not at all."""
    with writing(path) as temporary:
        temporary.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def write_records(path: str | Path, records: Iterable[Record]) -> None:
    """One JSON object on each line."""
    lines = [json.dumps(record.to_dict(), allow_nan=False) + "\n" for record in records]
    with writing(path) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")
