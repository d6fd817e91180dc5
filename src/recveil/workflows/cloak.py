"""From files to a document: the body of `recveil cloak`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recveil.attacks.attribute.surfaces import look
from recveil.audits.catalog import EMBEDDING_DEFENSES, PANELS, lookup, make
from recveil.core.errors import RecveilError, UsageError
from recveil.core.random import generator
from recveil.core.timing import Clock
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.data.io.user_tables import Vectors, check_output, write_embeddings
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import cloak_table
from recveil.streaming.engines import Engine
from recveil.workflows.audit import (
    Protocol,
    activity_of,
    check_outputs,
    described,
    notes_of,
    with_the_past,
    write_results,
)
from recveil.workflows.defended_release import measure_displacement, stack_codes
from recveil.workflows.documents import audits, details, header, merged, utility
from recveil.workflows.frontier import frontier
from recveil.workflows.inputs import Files
from recveil.workflows.large_inputs import is_large, open_large
from recveil.workflows.notes import UNKNOWN_USERS, notes_on, small_classes_as_one
from recveil.workflows.serving import Serving, serve_files, serve_run

__all__ = ["Defense", "cloak_files"]

LIST = 10
"""How long the lists are that are audited before and after."""


@dataclass(frozen=True)
class Defense:
    """Which defense, and how much of it."""

    method: str = "sliced"
    strength: float = 1.0
    frontier: bool = False


@dataclass(frozen=True)
class Places:
    """Where the results go, and whether an audit is wanted without a page."""

    out: Path
    report: Path | None
    audited: bool


def cloak_files(
    files: Files,
    names: list[str],
    defense: Defense,
    rules: Protocol,
    *,
    out: Path,
    report: Path | None = None,
    audited: bool = False,
    engine: Engine | None = None,
) -> dict[str, Any]:
    """Defend the table in the files and write it; with a report or `audited`, attack it before and after.

    Where it is known how the vectors are served (`--run`, or item vectors and interactions), also what the
    recommendations are worth before and after, and whether the lists made from them still tell the class. A large
    table, or one for which an engine is named, is read and written in blocks.
    """
    check_outputs(report)
    lookup("panel", rules.panel, PANELS)
    method = make("defense", defense.method, EMBEDDING_DEFENSES, strength=defense.strength, device=rules.device)
    if is_large(files) or engine is not None:
        places = Places(out, report, audited)
        return _cloak_large(files, names, defense, rules, method=method, places=places, engine=engine)
    check_outputs(out)
    vectors, targets = files.read(names)
    check_output(out, vectors)
    targets, rest = small_classes_as_one(targets)
    serving, missing = _serving(files, vectors, rules.seed)
    clock = Clock()
    with clock.step("cloak"):
        x = method(vectors.x, stack_codes(targets), rng=generator(rules.seed, "cloak"), utility=_loss(serving, rules))
    document: dict[str, Any] = {
        **header("cloak", sys.argv),
        "input": described(files, vectors),
        "seconds": clock.seconds["cloak"],
        "defense": {
            "name": defense.method,
            "strength": defense.strength,
            "targets": [t.name for t in targets],
            "displacement": {"relative": measure_displacement(vectors.x, x)},
            "notes": [*rest, *notes_on(vectors.x, targets, defense.method)],
        },
        "timings": clock.seconds,
        "warnings": [],
    }
    if report is not None or audited:
        document |= _judged(vectors.x, x, targets, rules, clock, _activity(files, vectors, serving))
        if serving is not None:
            with clock.step("measure the recommendations"):
                document |= _served(serving, vectors.x, x, targets, rules)
                document["warnings"] += _told_by_gaps(document["lists"])
        document["warnings"] += missing
    if defense.frontier:
        with clock.step("draw the frontier"):
            document["frontier"] = _frontier(vectors.x, targets, rules, serving)
    write_embeddings(out, vectors, x)
    write_results(document, report, None)
    return document


def _cloak_large(
    files: Files,
    names: list[str],
    defense: Defense,
    rules: Protocol,
    *,
    method: Any,
    places: Places,
    engine: Engine | None,
) -> dict[str, Any]:
    """The same for a table that is never in memory; audited is a sample, the same users before and after."""
    if defense.frontier:
        raise UsageError("--frontier cannot be used with a large table. Take a part of it that fits into memory.")
    large, clock = open_large(files, names), Clock()
    done = cloak_table(large.table, large.facts, method, places.out, seed=rules.seed, engine=engine)
    notes = [*done.notes]
    for name, classes in done.counts.items():
        if unknown := done.rows - sum(classes.values()):
            notes.append(f"{unknown:,} users with unknown {name} {UNKNOWN_USERS[defense.method]}.")
        if large.facts.path is None:
            notes.append(f"{places.out} still has the column {name}: leave it out of what you publish.")
    document: dict[str, Any] = {
        **header("cloak", sys.argv),
        "input": {"name": large.table.path.name, "n_users": done.rows, "d": done.d},
        "seconds": sum(done.seconds.values()),
        "defense": {
            "name": defense.method,
            "strength": defense.strength,
            "targets": names,
            "displacement": {"relative": done.displacement},
            "notes": notes,
        },
        "counts": done.counts,
        "parts": {"written": done.written, "found": done.found},
        "timings": {**done.seconds},
        "warnings": [],
    }
    if places.report is not None or places.audited:
        which = large.stratified(rules.rules, rules.margin, rules.seed, engine)
        before, after = (which.draw(table, engine) for table in (large.table, open_table(places.out, large.table.ids)))
        document |= _judged(before.x, after.x, before.targets, rules, clock, None)
        document["warnings"] = [which.sentence(done.rows), *document["warnings"]]
        document["timings"] |= clock.seconds
    write_results(document, places.report, None)
    return document


def _judged(
    x: FloatArray, moved: FloatArray, targets: list[Attribute], rules: Protocol, clock: Clock, whom: IntArray | None
) -> dict[str, Any]:
    """The audits before and after, of who holds both tables, and where and whom it leaks."""
    with clock.step("audit before"):
        before = rules.run(x, targets)
    with clock.step("audit after"):
        after = rules.run(moved, targets)
    with clock.step("audit of both tables"):
        past = with_the_past(x, moved, targets, rules)
    with clock.step("look where it leaks"):
        tables, found = [x, moved], [before, after]
        earlier, later = details(tables, targets, found, rules.rules, seed=rules.seed, activity=whom)
    return {
        "protocol": rules.to_dict(),
        "targets": merged(audits(after), later),
        "before": merged(audits(before), earlier),
        **past,
        "warnings": notes_of([*before, *after]),
    }


def _loss(serving: Serving | None, rules: Protocol) -> Any:
    if serving is None or serving.items is None:
        return None
    return serving.loss(device=rules.device, rng=generator(rules.seed, "loss"))


def _frontier(x: FloatArray, targets: list[Attribute], rules: Protocol, serving: Serving | None) -> dict[str, Any]:
    quick = replace(rules, panel="fast", seeds=1)
    return frontier(
        x, targets, lambda table: quick.run(table, targets), serving=serving, seed=rules.seed, device=rules.device
    )


def _serving(files: Files, vectors: Vectors, seed: int) -> tuple[Serving | None, list[str]]:
    """How the vectors are served, where that is known; a run whose data are not at hand can still be cloaked."""
    if files.run is not None:
        try:
            return serve_run(files.run, vectors), []
        except RecveilError as error:
            return None, [f"What the recommendations are worth was not measured. {error}"]
    if files.item_embeddings is not None and files.interactions is not None:
        return serve_files(vectors, files.item_embeddings, files.interactions, seed=seed), []
    if files.item_embeddings is not None or files.interactions is not None:
        raise UsageError("Utility needs both --item-embeddings and --interactions. Give both, or neither.")
    return None, []


def _activity(files: Files, vectors: Vectors, serving: Serving | None) -> IntArray | None:
    """How many interactions each user has; what was read to serve the vectors is not read again."""
    other = files.run is not None and files.interactions is not None
    return activity_of(files, vectors) if serving is None or other else serving.activity(len(vectors.x))


def _served(
    serving: Serving, before: FloatArray, after: FloatArray, targets: list[Attribute], rules: Protocol
) -> dict[str, Any]:
    """What the recommendations are worth before and after, and what the top-10 lists made from them give away."""
    split_order = [replace(t, codes=t.codes[serving.rows]) for t in targets]
    worth = utility(serving.ranks(before), serving.ranks(after), split_order)
    releases = {
        "before": serving.release(before, LIST),
        "after": serving.release(after, LIST),
        "after_seen_too": serving.release(after, LIST, again=True),
    }
    shown = {}
    for when, made in releases.items():
        lists = look(made, "lists", rng=generator(rules.seed, "view"))
        shown[when] = audits(replace(rules, permutations=0).run(lists, targets))
    return {"utility": {**worth, "note": serving.note}, "lists": shown}


def _told_by_gaps(lists: dict[str, Any]) -> list[str]:
    """A sentence for each attribute that the lists tell by what they leave out, and not by the vectors."""
    said = []
    for name, after in lists["after"].items():
        whole = lists["after_seen_too"][name]
        if after["verdict"] == "leak" != whole["verdict"]:
            left, gone = (told["headline"]["advantage"]["value"] for told in (after, whole))
            said.append(
                f"The lists still tell {name} (advantage {left:.2f}): they leave out what each user has touched, and "
                f"that tells it. Lists from the same vectors that leave nothing out show {gone:.2f}."
            )
    return said
