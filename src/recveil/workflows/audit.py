"""From files to a document: the body of `recveil audit`, and what `recveil cloak` shares with it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from recveil.attacks.attribute.panels import NEVER_HEADLINE, available
from recveil.attacks.attribute.surfaces import two_releases
from recveil.audits.attribute import folds as games
from recveil.audits.attribute.audit import audit
from recveil.audits.attribute.numeric import NumberAudit, audit_number
from recveil.audits.attribute.risk import UserRisk, check_risk_path, user_risk, write_risk
from recveil.audits.catalog import PANELS, lookup, panel
from recveil.audits.verdicts import MARGIN, TargetAudit
from recveil.core.errors import RecveilError, UsageError
from recveil.core.files import check_parent
from recveil.core.timing import Clock
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.data.io.attributes import joint
from recveil.data.io.user_tables import Vectors, read_interactions
from recveil.report.html import write_report
from recveil.workflows.documents import audits, details, header, merged, protocol, write_json
from recveil.workflows.inputs import Files
from recveil.workflows.large_inputs import is_large, open_large
from recveil.workflows.serving import data_of_run

__all__ = [
    "Outputs",
    "Protocol",
    "activity_of",
    "audit_files",
    "check_outputs",
    "described",
    "notes_of",
    "with_the_past",
    "write_results",
]

RATIOS = (0.2, 0.4, 0.6, 0.8)
"""Shares of the users whose attribute the attacker knows, for the curve."""


@dataclass(frozen=True)
class Protocol:
    """Under which rules the attackers play."""

    panel: str = "fast"
    folds: int = 5
    seeds: int = 2
    margin: float = MARGIN
    permutations: int = 0
    leak_ratio: float | None = None
    surface: str = "user_vectors"
    seed: int = 0
    device: str | None = None
    curve: bool = False

    @property
    def rules(self) -> games.Folds:
        """How the users are dealt."""
        return games.Folds(self.folds, self.seeds, leak_ratio=self.leak_ratio)

    def run(self, x: FloatArray, targets: list[Attribute], *, seen_in: FloatArray | None = None) -> list[TargetAudit]:
        """Audit each target on these vectors; the static attacker meets the users under attack in `seen_in`."""
        attacks = panel(self.panel, self.device)
        options = {"rules": self.rules, "permutations": self.permutations, "margin": self.margin, "seed": self.seed}
        return [audit(x, t, attacks, seen_in=seen_in, **options) for t in targets]  # type: ignore[arg-type]

    def run_numbers(self, x: FloatArray, targets: list[Attribute]) -> list[NumberAudit]:
        """Audit each of these numbers by regression."""
        return [audit_number(x, t, rules=self.rules, margin=self.margin, seed=self.seed) for t in targets]

    def curves(self, x: FloatArray, targets: list[Attribute], results: list[TargetAudit]) -> dict[str, list[Any]]:
        """For each target the headline at every leak ratio that these folds allow; `results` are the main run."""
        most = 1 - 1 / self.folds
        main = self.leak_ratio or most
        others = [ratio for ratio in RATIOS if ratio < most + 1e-9 and abs(ratio - main) > 1e-9]
        runs = {ratio: replace(self, leak_ratio=ratio, permutations=0).run(x, targets) for ratio in others}
        runs[round(main, 4)] = results
        return {t.name: [_at(ratio, runs[ratio][i]) for ratio in sorted(runs)] for i, t in enumerate(targets)}

    def to_dict(self) -> dict[str, Any]:
        """For the document."""
        said = protocol(self.panel, self.rules, seed=self.seed, margin=self.margin, permutations=self.permutations)
        return {**said, "surface": self.surface.replace("_", " "), "leak_ratio": self.leak_ratio}


@dataclass(frozen=True)
class Outputs:
    """Where to write what an audit found; nothing is written where no path is given."""

    report: Path | None = None
    out: Path | None = None
    risk: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None
    printed: bool = False

    @property
    def in_full(self) -> bool:
        """Whether anybody will see more than the verdicts."""
        return self.printed or self.report is not None or self.out is not None

    def check(self) -> None:
        """Find out before the work, not after it, that a result cannot be written."""
        check_outputs(self.report, self.out, self.junit, self.sarif)
        if self.risk is not None:
            check_risk_path(self.risk)


def audit_files(
    files: Files,
    names: list[str],
    rules: Protocol,
    *,
    outputs: Outputs | None = None,
    before: Path | None = None,
    together: bool = False,
) -> dict[str, Any]:
    """Attack what is in the files.

    With `before`, an earlier table of the same users: beside the attacker who learns from the new table, the static one
    who learned from the old, and the one who holds both. With `together`, all targets also as joint classes.
    Numbers are audited by regression on the table as it is; the rest is for classes.
    """
    outputs = outputs or Outputs()
    outputs.check()
    lookup("panel", rules.panel, PANELS)
    vectors, named, drawn = _read(files, names, rules, before)
    targets, numbers = ([t for t in named if t.continuous == kind] for kind in (False, True))
    if together and len(targets) > 1:
        targets = [*targets, joint(targets)]
    clock = Clock()
    with clock.step("look"):
        x = files.view(vectors, rules.surface, seed=rules.seed)
    with clock.step("audit"):
        results, guessed = rules.run(x, targets), rules.run_numbers(x, numbers)
    document: dict[str, Any] = {
        **header("audit", sys.argv),
        "input": {**described(files, vectors), **drawn},
        "protocol": rules.to_dict(),
        "targets": audits([*results, *guessed]),
        "timings": clock.seconds,
        "warnings": [*_left_out(rules.panel), *drawn.values(), *notes_of([*results, *guessed])],
    }
    if before is not None:
        with clock.step("audit with the earlier table"):
            document |= with_the_past(files.before(before, vectors), vectors.x, targets, rules)
    if outputs.in_full:
        with clock.step("look where it leaks"):
            [told] = details(
                [x], targets, [results], rules.rules, seed=rules.seed, activity=activity_of(files, vectors)
            )
        document["targets"] = merged(document["targets"], told)
    if rules.curve:
        with clock.step("audit with fewer known users"):
            curves = rules.curves(x, targets, results)
        document["targets"] = merged(document["targets"], {name: {"curve": c} for name, c in curves.items()})
    if outputs.risk is not None:
        write_risk(outputs.risk, vectors.ids, {r.target: _risk(r) for r in results})
    write_results(document, outputs.report, outputs.out)
    return document


def _read(
    files: Files, names: list[str], rules: Protocol, before: Path | None
) -> tuple[Vectors, list[Attribute], dict[str, str]]:
    """The vectors and the attributes of their users; of a large table those of a sample, and what is said of it."""
    if not is_large(files):
        return *files.read(names, numbers=True), {}
    if rules.surface != "user_vectors" or before is not None:
        what = "--before" if before is not None else f"--surface {rules.surface}"
        raise UsageError(f"{what} cannot be used with a large table. Take a part of it that fits into memory.")
    vectors, targets, sentence = open_large(files, names).drawn(rules.rules, rules.margin, rules.seed)
    return vectors, targets, {"sample": sentence}


def activity_of(files: Files, vectors: Vectors) -> IntArray | None:
    """How many interactions each user has: from the file of them, or from the data that the run was trained on."""
    n = len(vectors.x)
    if files.interactions is not None:
        return np.bincount(read_interactions(files.interactions, vectors.ids).user, minlength=n).astype(np.int64)
    if files.run is None:
        return None
    try:
        _, data, rows = data_of_run(files.run, vectors)
    except RecveilError:
        return None  # the data of the run need not be at hand where it is audited
    return np.bincount(rows[data.user], minlength=n).astype(np.int64)


def _at(ratio: float, result: TargetAudit) -> dict[str, Any]:
    reached = {metric: getattr(result.headline, metric).to_dict() for metric in ("advantage", "balanced_accuracy")}
    return {"ratio": ratio, **reached}


def _risk(result: TargetAudit) -> UserRisk:
    looking = {name: trials for name, trials in result.played.items() if name not in NEVER_HEADLINE}
    return user_risk(looking, len(result.users), users=result.users)


def with_the_past(before: FloatArray, after: FloatArray, targets: list[Attribute], rules: Protocol) -> dict[str, Any]:
    """The attackers that a release has to fear when an earlier one is out already."""
    return {
        "static": audits(rules.run(before, targets, seen_in=after)),
        "two_releases": audits(rules.run(two_releases(before, after), targets)),
    }


def described(files: Files, vectors: Vectors) -> dict[str, Any]:
    """What was handed in."""
    name = (files.run or files.embeddings or Path()).name
    return {"name": name, "n_users": len(vectors.x), "d": vectors.x.shape[1]}


def _left_out(name: str) -> list[str]:
    """What of the panel cannot run here."""
    missing = [attack for attack in PANELS[name] if attack not in available(PANELS[name])]
    return [
        f"{attack} was left out: its package is not installed (pip install 'recveil[xgboost]')." for attack in missing
    ]


def notes_of(results: Sequence[TargetAudit | NumberAudit]) -> list[str]:
    """What the audits have to say beside their numbers, each thing once."""
    return list(dict.fromkeys(note for result in results for note in result.notes))


def check_outputs(*paths: Path | None) -> None:
    """Find out before the work, not after it, that a result cannot be written."""
    for path in paths:
        if path is not None:
            check_parent(path)


def write_results(document: Mapping[str, Any], report: Path | None, out: Path | None) -> None:
    """The page and the JSON file, where they were asked for."""
    if report is not None:
        write_report(document, report)
    if out is not None:
        write_json(out, document)
