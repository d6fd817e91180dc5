"""From the result document to what the page shows: plain dicts and strings, nothing of HTML, nothing of drawing.

Only named fields are taken over, so that what somebody adds to a document (user ids, say) cannot reach the page
by accident. Figures are described here as data (`kind`, `rows`, ...) and drawn in `charts`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from recveil.core.errors import DataError
from recveil.report.cost import cost, worth
from recveil.report.figures import target_figures
from recveil.report.formatting import (
    MISSING,
    as_dict,
    class_count,
    count,
    discreet,
    estimate,
    finite,
    number,
    p_value,
    text,
    too_small,
)
from recveil.report.frontier import frontier
from recveil.report.leaks import where_it_leaks

__all__ = ["SCHEMA", "summarize"]

SCHEMA = 1

_VERDICTS = {
    "leak": ("Leak", "!", "{name} can be guessed from what is released."),
    "none": ("No leak found", "✓", "No attacker of this panel could guess {name} by more than the margin."),
    "inconclusive": ("Inconclusive", "?", "These users are too few to say whether {name} leaks."),
}
_METRICS = ("balanced_accuracy", "advantage", "accuracy", "macro_f1", "auc")
_PROTOCOL = {
    "panel": "Panel",
    "attacks": "Attackers",
    "attacker": "Kind of attacker",
    "surface": "What is attacked",
    "folds": "Folds",
    "inner_folds": "Inner folds",
    "seeds": "Repetitions",
    "p_value": "P-value",
    "permutations": "Permutations",
    "margin": "Margin (advantage)",
    "seed": "Seed",
}

Json = Mapping[str, Any]


def summarize(document: Json) -> dict[str, Any]:
    """Everything the page shows, formatted; a part that the document lacks is None or empty."""
    _check(document)
    before = as_dict(document.get("before"))
    defense = as_dict(document.get("defense"))
    targets = {name: as_dict(target) for name, target in document["targets"].items()}
    classes = {name: target for name, target in targets.items() if target.get("kind") != "number"}
    surface = text(as_dict(document.get("protocol")).get("surface") or "user vectors")
    return {
        "title": f"What the {surface} of {text(as_dict(document.get('input')).get('name') or 'this table')} give away",
        "compared": bool(before),
        "size": _size(as_dict(document.get("input"))),
        "version": text(document.get("recveil", "")),
        "verdicts": [_verdict(name, after, before, defense) for name, after in targets.items()],
        "warnings": [discreet(warning) for warning in document.get("warnings") or []],
        "threat": _threat(document, surface),
        "targets": [_target(name, after, as_dict(before.get(name))) for name, after in classes.items()],
        "numbers": [_guessed(name, targets[name]) for name in targets if name not in classes],
        "past": _past(document),
        "lists": _lists(as_dict(document.get("lists"))),
        "frontier": frontier(as_dict(document.get("frontier"))),
        "utility": worth(as_dict(document.get("utility"))),
        "cost": cost(document),
        "protocol": _protocol(document),
    }


def _check(document: Json) -> None:
    if document.get("schema") != SCHEMA:
        raise DataError(
            f"The document has schema {document.get('schema')!r}; this recveil reports on schema {SCHEMA}. "
            "Make the document again with this version (`recveil audit ... --json`)."
        )
    if not isinstance(document.get("targets"), Mapping) or not document["targets"]:
        raise DataError("The document names no audited attribute under 'targets'. Run the audit with --target first.")


def _size(source: Json) -> str:
    units = {"n_users": "users", "d": "dimensions", "n_items": "items", "n_interactions": "interactions"}
    parts = [f"{count(source[key])} {unit}" for key, unit in units.items() if finite(source.get(key)) is not None]
    if source.get("model"):
        parts.append(f"model {text(source['model'])}")
    return " · ".join(parts)


def _judgement(name: str, target: Json) -> dict[str, str]:
    kind = target.get("verdict") if target.get("verdict") in _VERDICTS else "inconclusive"
    word, icon, sentence = _VERDICTS[str(kind)]
    spoken = target.get("sentence") or sentence.format(name=name)
    return {"kind": str(kind), "word": word, "icon": icon, "sentence": discreet(spoken)}


def _verdict(name: str, after: Json, before: Json, defense: Json) -> dict[str, Any]:
    """One card of the band: the verdict on the release, the one before the defense, and whether it was defended."""
    earlier = as_dict(before.get(name))
    releases = {"before": earlier, "after": after} if earlier else {"": after}
    return {
        "target": text(name),
        "kind": _judgement(name, after)["kind"],
        "lines": [{"release": key, "verdict": _judgement(name, target)} for key, target in releases.items()],
        "glance": "; ".join(_glance(key, target) for key, target in releases.items()),
        "chance": number(after.get("chance")),
        "unprotected": bool(defense) and name not in (defense.get("targets") or [name]),
    }


def _glance(release: str, target: Json) -> str:
    headline = as_dict(target.get("headline"))
    name, metric = ("R2", "r2") if target.get("kind") == "number" else ("balanced accuracy", "balanced_accuracy")
    shown = estimate(headline.get(metric))
    when = f"{release}: " if release else ""
    return f"{when}{name} {shown['value']} {shown['interval']} ({text(headline.get('attack') or MISSING)})"


def _threat(document: Json, surface: str) -> list[dict[str, str]]:
    """Who the attacker is, said from what the audit did."""
    protocol, source = as_dict(document.get("protocol")), as_dict(document.get("input"))
    folds, n_users, d = (finite(value) for value in (protocol.get("folds"), source.get("n_users"), source.get("d")))
    part = f"{folds - 1:.0f} of every {folds:.0f}" if folds else "some"
    shape = f" ({count(n_users)} users, {count(d)} numbers each)" if n_users and d else ""
    names = " and ".join(", ".join(map(text, document["targets"])).rsplit(", ", 1))
    lines = [
        ("Wants", f"to learn {names} of users who did not disclose it."),
        ("Sees", f"the {surface}{shape}, exactly as released."),
        ("Knows", f"the true value for {part} users, from a survey or another service, and learns from these."),
        ("Does not see", "the interactions, the model, its training, or any other table."),
    ]
    if document.get("before"):
        if protocol.get("attacker") == "adaptive":
            lines.append(("Adapts", "to the defense: learns again on the cloaked table, not on an old one."))
        if not document.get("two_releases"):
            both = "an attacker who holds the table from before as well: how a user moved can tell the class."
            lines.append(("Not covered", f"{both} Do not publish both tables."))
    return [{"term": term, "text": line} for term, line in lines]


_PAST = {
    "static": "learned from the earlier table, meets users in this one",
    "two_releases": "holds both tables and sees how each user moved",
}


def _past(document: Json) -> list[dict[str, Any]]:
    """The attackers to fear when an earlier table of the same users is out already."""
    found = [(what, as_dict(document.get(what))) for what in _PAST]
    rows = [(what, name, as_dict(target)) for what, targets in found for name, target in targets.items()]
    return [
        {"who": _PAST[what], "target": text(name), **_headline_row(name, "", target)} for what, name, target in rows
    ]


_LISTS = {"before": "before", "after": "after", "after_seen_too": "after, if nothing were left out"}


def _lists(found: Json) -> list[dict[str, Any]]:
    """What the lists give away that are made from the vectors, before and after."""
    return [
        {"when": said, "target": text(name), **_headline_row(name, "", as_dict(target))}
        for when, said in _LISTS.items()
        for name, target in as_dict(found.get(when)).items()
    ]


def _target(name: str, after: Json, before: Json) -> dict[str, Any]:
    releases = {"before": before, "after": after} if before else {"": after}
    labels = [str(label) for label in after.get("labels") or []]
    counts = as_dict(after.get("counts"))
    attacks = dict.fromkeys(attack for target in (after, before) for attack in as_dict(target.get("attacks")))
    return {
        "name": text(name),
        "compared": bool(before),
        "classes": [{"label": text(label), "count": class_count(counts.get(label))} for label in labels],
        "headline": [_headline_row(name, release, target) for release, target in releases.items()],
        "attacks": [_attack_rows(attack, releases) for attack in attacks],
        "references": _references(after, before),
        "recall": _recall(labels, counts, releases),
        "charts": target_figures(text(name), labels, releases),
        "where": where_it_leaks(text(name), releases),
    }


def _guessed(name: str, target: Json) -> dict[str, Any]:
    """The audit of a number: each attacker with its R2, and the advantage it has over guessing the mean."""
    metrics, attacks = ("r2", "advantage", "correlation"), as_dict(target.get("attacks"))
    rows = [("headline", as_dict(target.get("headline"))), *((a, as_dict(result)) for a, result in attacks.items())]
    return {
        "name": text(name),
        "rows": [{"attack": text(a), **{m: estimate(result.get(m)) for m in metrics}} for a, result in rows],
        "p_value": p_value(as_dict(target.get("headline")).get("p_value")),
        **{key: number(target.get(key)) for key in ("margin", "detectable", "mean", "spread")},
        "n": count(target.get("n")),
    }


def _headline_row(name: str, release: str, target: Json) -> dict[str, Any]:
    headline = as_dict(target.get("headline"))
    return {
        "release": release,
        "verdict": _judgement(name, target),
        "attack": text(headline.get("attack") or MISSING),
        "chosen": _chosen(headline),
        "balanced_accuracy": estimate(headline.get("balanced_accuracy")),
        "advantage": estimate(headline.get("advantage")),
        "p_value": p_value(headline.get("p_value")),
        "margin": number(target.get("margin")),
        "detectable": number(target.get("detectable")),
        "n": count(target.get("n")),
    }


def _chosen(headline: Json) -> str:
    """In what share of the folds the attacker that names the headline was chosen, unless it was in all."""
    share = finite(as_dict(headline.get("chosen")).get(str(headline.get("attack"))))
    return "" if share is None or share >= 1 else f"in {100 * share:.0f} % of folds"


def _attack_rows(attack: str, releases: Mapping[str, Json]) -> dict[str, Any]:
    rows = []
    for release, target in releases.items():
        result = as_dict(as_dict(target.get("attacks")).get(attack))
        flags = [flag for flag in ("inverted", "degenerate") if result.get(flag)]
        if as_dict(target.get("headline")).get("attack") == attack:
            flags.insert(0, "headline")
        rows.append({"release": release, "flags": flags, **{key: estimate(result.get(key)) for key in _METRICS}})
    return {"attack": text(attack), "rows": rows}


def _references(after: Json, before: Json) -> list[dict[str, str]]:
    """What the numbers are to be compared with: guessing, the largest class, and the best attack where it is known."""
    chance, bayes = number(after.get("chance")), finite(after.get("bayes", before.get("bayes")))
    rows = [
        {"name": "Chance", "balanced_accuracy": chance, "advantage": number(0), "accuracy": MISSING},
        {
            "name": "Always the largest class",
            "balanced_accuracy": chance,
            "advantage": number(0),
            "accuracy": number(after.get("majority")),
        },
    ]
    if bayes is not None:
        best = "Best possible attack in this synthetic world"
        rows.append({"name": best, "balanced_accuracy": number(bayes), "advantage": MISSING, "accuracy": MISSING})
    return rows


def _recall(labels: list[str], counts: Json, releases: Mapping[str, Json]) -> list[dict[str, Any]]:
    """How often each class is recognized by the attacker that names the headline; nothing where none says so."""
    recalls = []
    for target in releases.values():
        attack = str(as_dict(target.get("headline")).get("attack"))
        recalls.append(as_dict(as_dict(as_dict(target.get("attacks")).get(attack)).get("recall")))
    if not any(recalls):
        return []
    return [
        {
            "label": text(label),
            "count": class_count(counts.get(label)),
            "cells": [estimate(None if too_small(counts.get(label)) else recall.get(label)) for recall in recalls],
        }
        for label in labels
    ]


def _protocol(document: Json) -> list[dict[str, str]]:
    """What one needs to get the same numbers again."""
    protocol, defense = as_dict(document.get("protocol")), as_dict(document.get("defense"))
    rows = [("recveil", text(document.get("recveil", MISSING)))]
    for key, term in _PROTOCOL.items():
        if protocol.get(key) is not None:
            value = protocol[key]
            rows.append((term, ", ".join(map(text, value)) if isinstance(value, list | tuple) else text(value)))
    if defense:
        strength = finite(defense.get("strength"))
        shown = text(defense.get("name") or MISSING) + (f", strength {strength:g}" if strength is not None else "")
        rows.append(("Defense", shown))
        rows.append(("Defended attributes", ", ".join(map(text, defense.get("targets") or [])) or MISSING))
        rows += [("Note", discreet(note)) for note in defense.get("notes") or []]
    if document.get("argv"):
        rows.append(("Command", text(shlex.join(map(str, document["argv"])))))
    return [{"term": term, "text": text} for term, text in rows]
