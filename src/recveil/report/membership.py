"""The page of a membership audit, as plain dicts and strings: only named fields of the document are taken over."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from recveil.core.errors import DataError
from recveil.report.formatting import as_dict, count, discreet, estimate, finite, number, text
from recveil.report.summary import SCHEMA

__all__ = ["told"]

Json = Mapping[str, Any]

# The class gives the colour: what a rule explains is a warning, not an acquittal.
_VERDICTS = {
    "leak": ("leak", "Leak", "!"),
    "explained": ("inconclusive", "Explained by the serving rule", "!"),
    "none": ("none", "No leak found", "✓"),
    "inconclusive": ("inconclusive", "Inconclusive", "?"),
    "unknown": ("inconclusive", "Scores only", "?"),
}
_GAMES = {"before": "undefended", "static": "defended, attacker does not know", "": "defended, attacker adapts"}
_SERVING = {"fold-in": "by the model, folded in", "popular": "with the most popular items"}
_SEEN = {
    "excluded": "left out for everybody",
    "kept": "kept for everybody",
    "paper": "left out for non-members only (the flawed rule of published benchmarks)",
}


def told(document: Json) -> dict[str, Any]:
    """Everything the page shows, formatted; a part that the document lacks is empty."""
    if document.get("schema") != SCHEMA or not isinstance(document.get("verdict"), Mapping):
        raise DataError(
            f"The document has schema {document.get('schema')!r} and is no membership audit of schema {SCHEMA}. Make "
            "it again with this version (`recveil membership ... --json`)."
        )
    source = as_dict(document.get("input"))
    attacks = as_dict(document.get("attacks"))
    games = {name: as_dict(document.get(name)) for name in ("before", "static")}
    defended = bool(games["before"])
    return {
        "title": f"Whom {text(source.get('model') or source.get('name') or 'this recommender')} was trained on",
        "version": text(document.get("recveil", "")),
        "size": _size(document, source),
        "verdict": _verdict(document),
        "warnings": [discreet(warning) for warning in document.get("warnings") or []],
        "threat": _threat(document, source),
        "rows": _rows(attacks),
        "charts": _roc(as_dict(document.get("roc")), attacks),
        "games": _games({**games, "": document}, attacks) if defended else [],
        "utility": _utility(as_dict(document.get("utility")), defended=defended),
        "protocol": _protocol(document, source),
    }


def _verdict(document: Json) -> dict[str, str]:
    given = as_dict(document["verdict"])
    kind, word, icon = _VERDICTS.get(str(given.get("kind")), _VERDICTS["inconclusive"])
    return {"kind": kind, "word": word, "icon": icon, "sentence": discreet(given.get("sentence") or "")}


def _size(document: Json, source: Json) -> str:
    n, members = finite(document.get("n")), finite(document.get("members"))
    parts = [text(source.get("name") or "")] + ([f"{count(n)} users under attack"] if n is not None else [])
    parts += [f"{count(members)} of them members"] if members is not None else []
    return " · ".join(part for part in parts if part)


def _threat(document: Json, source: Json) -> list[dict[str, str]]:
    kind = as_dict(document.get("protocol")).get("kind")
    lines = [
        ("Wants", "to know of each user whether the recommender was trained on this person."),
        ("Sees", "what each user touched and the list each user is served."),
        ("Knows", "a shadow platform through and through: its users, its lists, and who of them are members."),
        ("Item vectors", text(source.get("item_vectors") or "none")),
    ]
    if kind == "transductive":
        lines.append(("Looks at", "the users under attack before judging them, never at who is a member."))
    elif kind == "inductive":
        lines.append(("Looks at", "one half of the target's users, and judges the others."))
    references = as_dict(as_dict(document.get("protocol")).get("references"))
    if references:
        told = f"lira and rmia, which see the scores of all items too and train {count(references.get('n'))} models"
        lines.append(("Stronger", f"{told} on halves of the target's users."))
    unseen = "the model and its vectors" if references else "the model, its vectors or scores"
    lines.append(("Does not see", f"{unseen}, and who of the target is a member."))
    return [{"term": term, "text": line} for term, line in lines]


def _rows(attacks: Json) -> list[dict[str, Any]]:
    rows = []
    for name, found in ((name, as_dict(found)) for name, found in attacks.items()):
        rates = as_dict(found.get("tpr_at_fpr"))
        flags = ["inverted"] if found.get("inverted") else []
        flags += ["rule"] if found.get("rule") else []
        rows.append(
            {
                "attack": text(name),
                "auc": estimate(found.get("auc")),
                "rates": [estimate(rates.get(fpr)) for fpr in ("0.001", "0.01")],
                "realized": number(as_dict(as_dict(rates.get("0.01")).get("realized_fpr")).get("value"), 4),
                "balanced_accuracy": estimate(found.get("balanced_accuracy")),
                "ahead": estimate(found.get("ahead_of_rules"), signed=True),
                "flags": [*flags, *([text(found["explained"])] if found.get("explained") else [])],
            }
        )
    return rows


def _roc(curves: Json, attacks: Json) -> list[dict[str, Any]]:
    """One figure of the attacks, and of rules only the one that comes furthest: the others would hide them."""
    rules = {name: as_dict(found) for name, found in attacks.items() if as_dict(found).get("rule")}
    best = max(rules, key=lambda name: _distance(rules[name]), default=None)
    shown = [name for name in curves if name in attacks and (name == best or name not in rules)]
    rows = [
        {"attack": text(name) + (" (rule)" if name in rules else ""), "fpr": float(fpr), "tpr": float(tpr)}
        for name in shown
        for fpr, tpr in curves[name]
        if finite(fpr) and finite(tpr) is not None
    ]
    if not rows:
        return []
    return [
        {
            "kind": "roc",
            "id": "roc",
            "title": "Members found over non-members accused",
            "caption": "Both scales are logarithmic: what matters of an accusation is how few innocents it costs. Of "
            "the rules the one that comes furthest is drawn.",
            "rows": rows,
            "series": [],
            "lines": [{"label": "chance"}],
        }
    ]


def _distance(found: Json) -> float:
    return abs((finite(as_dict(found.get("auc")).get("value")) or 0.5) - 0.5)


def _games(games: Json, attacks: Json) -> list[dict[str, Any]]:
    """The AUC of everything in each game."""
    return [
        {
            "attack": text(name),
            "cells": [
                estimate(as_dict(as_dict(as_dict(games[g]).get("attacks")).get(name)).get("auc")) for g in _GAMES
            ],
        }
        for name in attacks
    ]


def _utility(found: Json, *, defended: bool) -> list[dict[str, Any]]:
    compared = {"undefended": found.get("before"), "defended": found.get("after")}
    parts = compared if defended else {"": found or None}
    rows = [
        {"who": who if not when else f"{who}, {when}", "value": estimate(as_dict(part).get(key))}
        for when, part in parts.items()
        for who, key in (("members", "members"), ("non-members", "others"))
        if part
    ]
    if defended:
        rows.append({"who": "non-members, change", "value": estimate(found.get("others_lost"), signed=True)})
    return rows


def _protocol(document: Json, source: Json) -> list[dict[str, str]]:
    rules, serving = as_dict(document.get("protocol")), as_dict(source.get("serving"))
    lines: list[tuple[str, Any]] = [
        ("Target model", source.get("model")),
        ("Shadow model", source.get("shadow_model")),
        ("Non-members are served", _SERVING.get(str(serving.get("nonmembers")))),
        ("Items already touched", _SEEN.get(str(serving.get("seen")))),
        ("Places of a list", serving.get("k")),
        ("Attacks", ", ".join(map(str, rules.get("attacks") or [])) or "rules alone"),
        ("Reference models", as_dict(rules.get("references")).get("n")),
        ("Their signal", as_dict(rules.get("references")).get("signal")),
        ("Kind of attacker", rules.get("kind")),
        ("Margin (AUC)", rules.get("margin")),
        ("Seed", rules.get("seed")),
        ("Command", shlex.join(map(str, document["argv"])) if document.get("argv") else None),
    ]
    return [{"term": term, "text": text(value)} for term, value in lines if value is not None]
