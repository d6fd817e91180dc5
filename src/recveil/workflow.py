"""From files to a document: the bodies of `recveil audit` and `recveil cloak`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recveil import games
from recveil.atomic import check_parent
from recveil.attacks.attribute.battery import NEVER_HEADLINE, available
from recveil.attacks.attribute.views import two_releases
from recveil.audit import audit
from recveil.catalog import EMBEDDING_DEFENSES, PANELS, lookup, make, panel
from recveil.clock import Clock
from recveil.core import Attribute, FloatArray
from recveil.data.attributes import joint
from recveil.data.files import Vectors, check_output, require_classes, write_embeddings
from recveil.inputs import Files
from recveil.protect import codes_of, displacement
from recveil.random import generator
from recveil.report.document import audits, header, protocol, write_json
from recveil.report.html import write_report
from recveil.risk import UserRisk, check_risk_path, user_risk, write_risk
from recveil.verdict import MARGIN, TargetAudit

__all__ = ["Defense", "Outputs", "Protocol", "audit_files", "cloak_files"]


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

    @property
    def rules(self) -> games.Folds:
        """How the users are dealt."""
        return games.Folds(self.folds, self.seeds, leak_ratio=self.leak_ratio)

    def run(self, x: FloatArray, targets: list[Attribute], *, seen_in: FloatArray | None = None) -> list[TargetAudit]:
        """Audit each target on these vectors; the static attacker meets the users under attack in `seen_in`."""
        attacks = panel(self.panel, self.device)
        options = {"rules": self.rules, "permutations": self.permutations, "margin": self.margin, "seed": self.seed}
        return [audit(x, t, attacks, seen_in=seen_in, **options) for t in targets]  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """For the document."""
        said = protocol(self.panel, self.rules, seed=self.seed, margin=self.margin, permutations=self.permutations)
        return {**said, "surface": self.surface.replace("_", " "), "leak_ratio": self.leak_ratio}


@dataclass(frozen=True)
class Defense:
    """Which defense, and how much of it."""

    method: str = "sliced"
    strength: float = 1.0


@dataclass(frozen=True)
class Outputs:
    """Where to write what an audit found; nothing is written where no path is given."""

    report: Path | None = None
    out: Path | None = None
    risk: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None

    def check(self) -> None:
        """Find out before the work, not after it, that a result cannot be written."""
        _check_outputs(self.report, self.out, self.junit, self.sarif)
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
    """
    outputs = outputs or Outputs()
    outputs.check()
    lookup("panel", rules.panel, PANELS)
    vectors, targets = files.read(names)
    if together and len(targets) > 1:
        targets = [*targets, joint(targets)]
    clock = Clock()
    with clock.step("look"):
        x = files.view(vectors, rules.surface, seed=rules.seed)
    with clock.step("audit"):
        results = rules.run(x, targets)
    document: dict[str, Any] = {
        **header("audit", sys.argv),
        "input": _described(files, vectors),
        "protocol": rules.to_dict(),
        "targets": audits(results),
        "timings": clock.seconds,
        "warnings": [*_left_out(rules.panel), *_notes(results)],
    }
    if before is not None:
        with clock.step("audit with the earlier table"):
            document |= _with_the_past(files.before(before, vectors), vectors.x, targets, rules)
    if outputs.risk is not None:
        write_risk(outputs.risk, vectors.ids, {r.target: _risk(r) for r in results})
    _write(document, outputs.report, outputs.out)
    return document


def _risk(result: TargetAudit) -> UserRisk:
    looking = {name: trials for name, trials in result.played.items() if name not in NEVER_HEADLINE}
    return user_risk(looking, len(result.users), users=result.users)


def _with_the_past(before: FloatArray, after: FloatArray, targets: list[Attribute], rules: Protocol) -> dict[str, Any]:
    """The attackers that a release has to fear when an earlier one is out already."""
    return {
        "static": audits(rules.run(before, targets, seen_in=after)),
        "two_releases": audits(rules.run(two_releases(before, after), targets)),
    }


def cloak_files(
    files: Files,
    names: list[str],
    defense: Defense,
    rules: Protocol,
    *,
    out: Path,
    report: Path | None = None,
    audited: bool = False,
) -> dict[str, Any]:
    """Defend the table in the files and write it; with a report or `audited`, attack it before and after."""
    _check_outputs(report, out)
    lookup("panel", rules.panel, PANELS)
    method = make("defense", defense.method, EMBEDDING_DEFENSES, strength=defense.strength, device=rules.device)
    vectors, targets = files.read(names)
    check_output(out, vectors)
    for target in targets:
        require_classes(target)
    clock = Clock()
    with clock.step("cloak"):
        x = method(vectors.x, codes_of(targets), rng=generator(rules.seed, "cloak"))
    document: dict[str, Any] = {
        **header("cloak", sys.argv),
        "input": _described(files, vectors),
        "seconds": clock.seconds["cloak"],
        "defense": _defended(defense, targets, vectors.x, x),
        "timings": clock.seconds,
        "warnings": [],
    }
    if report is not None or audited:
        with clock.step("audit before"):
            before = rules.run(vectors.x, targets)
        with clock.step("audit after"):
            after = rules.run(x, targets)
        with clock.step("audit of both tables"):
            past = _with_the_past(vectors.x, x, targets, rules)
        found = {"protocol": rules.to_dict(), "targets": audits(after), "before": audits(before)}
        document |= {**found, **past, "warnings": _notes([*before, *after])}
    write_embeddings(out, vectors, x)
    _write(document, report, None)
    return document


def _defended(defense: Defense, targets: list[Attribute], before: FloatArray, after: FloatArray) -> dict[str, Any]:
    unknown = {t.name: int((~t.known).sum()) for t in targets}
    notes = [f"{n:,} users with unknown {name} went through the label-free map." for name, n in unknown.items() if n]
    return {
        "name": defense.method,
        "strength": defense.strength,
        "targets": [t.name for t in targets],
        "displacement": {"relative": displacement(before, after)},
        "notes": notes,
    }


def _described(files: Files, vectors: Vectors) -> dict[str, Any]:
    name = (files.run or files.embeddings or Path()).name
    return {"name": name, "n_users": len(vectors.x), "d": vectors.x.shape[1]}


def _left_out(name: str) -> list[str]:
    """What of the panel cannot run here."""
    missing = [attack for attack in PANELS[name] if attack not in available(PANELS[name])]
    return [
        f"{attack} was left out: its package is not installed (pip install 'recveil[xgboost]')." for attack in missing
    ]


def _notes(results: list[TargetAudit]) -> list[str]:
    return list(dict.fromkeys(note for result in results for note in result.notes))


def _check_outputs(*paths: Path | None) -> None:
    """Find out before the work, not after it, that a result cannot be written."""
    for path in paths:
        if path is not None:
            check_parent(path)


def _write(document: Mapping[str, Any], report: Path | None, out: Path | None) -> None:
    if report is not None:
        write_report(document, report)
    if out is not None:
        write_json(out, document)
