"""From files to a document: the bodies of `recveil audit` and `recveil cloak`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recveil import games
from recveil.atomic import check_parent
from recveil.audit import audit
from recveil.catalog import EMBEDDING_DEFENSES, PANELS, lookup, make, panel
from recveil.clock import Clock
from recveil.core import Attribute, FloatArray
from recveil.data.files import (
    Vectors,
    check_output,
    read_attributes,
    read_embeddings,
    require_classes,
    write_embeddings,
)
from recveil.errors import DataError, UsageError
from recveil.protect import codes_of, displacement, targets_of
from recveil.random import generator
from recveil.report.document import audits, header, protocol, write_json
from recveil.report.html import write_report
from recveil.verdict import MARGIN, TargetAudit

__all__ = ["Defense", "Files", "Protocol", "audit_files", "cloak_files"]


@dataclass(frozen=True)
class Files:
    """What the user hands in: a table of vectors and one of attributes, or a folder that `recveil train` wrote."""

    embeddings: Path | None
    attributes: Path | None
    ids: Path | None = None
    run: Path | None = None
    numeric: Sequence[str] = ()
    bins: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def read(self, names: list[str]) -> tuple[Vectors, list[Attribute]]:
        """The vectors, and the named attributes of their users; without names, all that are classes."""
        table, facts = self._paths()
        vectors = read_embeddings(table, self.ids)
        attributes = read_attributes(facts, vectors.ids, numeric=self.numeric, bins=self.bins, keep=names)
        return vectors, targets_of(
            attributes, names or [n for n, a in attributes.items() if not a.continuous], str(facts)
        )

    def _paths(self) -> tuple[Path, Path]:
        if self.run is not None:
            if self.embeddings or self.attributes:
                raise UsageError("Give either --run or --embeddings and --attributes, not both.")
            if not (self.run / "users.parquet").is_file():
                raise DataError(
                    f"{self.run} has no users.parquet. Name a folder that `recveil train` wrote vectors into."
                )
            return self.run / "users.parquet", self.run / "attributes.parquet"
        if self.embeddings is None or self.attributes is None:
            raise UsageError("Give --embeddings FILE and --attributes FILE, or --run FOLDER.")
        return self.embeddings, self.attributes


@dataclass(frozen=True)
class Protocol:
    """Under which rules the attackers play."""

    panel: str = "fast"
    folds: int = 5
    seeds: int = 2
    margin: float = MARGIN
    permutations: int = 0
    seed: int = 0
    device: str | None = None

    @property
    def rules(self) -> games.Folds:
        """How the users are dealt."""
        return games.Folds(self.folds, self.seeds)

    def run(self, x: FloatArray, targets: list[Attribute]) -> list[TargetAudit]:
        """Audit each target on these vectors."""
        attacks = panel(self.panel, self.device)
        options = {"rules": self.rules, "permutations": self.permutations, "margin": self.margin, "seed": self.seed}
        return [audit(x, t, attacks, **options) for t in targets]  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """For the document."""
        return protocol(self.panel, self.rules, seed=self.seed, margin=self.margin, permutations=self.permutations)


@dataclass(frozen=True)
class Defense:
    """Which defense, and how much of it."""

    method: str = "sliced"
    strength: float = 1.0


def audit_files(
    files: Files, names: list[str], rules: Protocol, *, report: Path | None = None, out: Path | None = None
) -> dict[str, Any]:
    """Attack the table in the files; write the page and the document where asked to."""
    _check_outputs(report, out)
    lookup("panel", rules.panel, PANELS)
    vectors, targets = files.read(names)
    clock = Clock()
    with clock.step("audit"):
        results = rules.run(vectors.x, targets)
    document = {
        **header("audit", sys.argv),
        "input": _described(files, vectors),
        "protocol": rules.to_dict(),
        "targets": audits(results),
        "timings": clock.seconds,
        "warnings": _notes(results),
    }
    _write(document, report, out)
    return document


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
        found = {"protocol": rules.to_dict(), "targets": audits(after), "before": audits(before)}
        document |= {**found, "warnings": _notes([*before, *after])}
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
