"""What a membership study says: who can be told by which attack, shadow by target, beside the best rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from recveil.core.types import Estimate
from recveil.studies.pooled_seeds import Line, over_seeds

__all__ = ["area", "attacks_in", "membership_parts", "rules_in"]

Json = dict[str, Any]
RULE = "best rule"


def membership_parts(found: Sequence[Line]) -> Json:
    """Tables and heat maps, one set for each data set, way of serving, defense and kind of item vectors."""
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in found:
        key = tuple(line.at[name] for name in ("data", "serving", "defense", "generator"))
        groups.setdefault(key, []).append(line)
    tables, heats = [], []
    for (data, serving, defense, generator), mine in groups.items():
        named = f"{data}, others served by {serving}, item vectors from {generator}"
        named += "" if defense == "none" else f", defense {defense}"
        tables.append(_table(named, mine))
        heats += _heats(named, mine)
    return {"tables": tables, "heats": heats, "advice": [_advice(found)]}


def attacks_in(line: Line) -> list[str]:
    """The attacks of a line, rules left out; a defended one is also met by an attacker who does not know of it."""
    named = dict.fromkeys(r["attack"] for result in line.results for r in result["records"] if r["metric"] == "auc")
    rules = rules_in(line)
    return [name for name in named if name not in rules and name.removesuffix(", static") not in rules]


def rules_in(line: Line) -> list[str]:
    """The rules that ran beside them."""
    told = line.results[0]["details"]["attacks"] if line.results else {}
    return [name for name, found in told.items() if found["rule"]]


def area(line: Line, attack: str, metric: str = "auc") -> Estimate | None:
    """Of one attack, over the seeds; of `RULE` that of the rule that is furthest from chance on the target itself."""
    if attack == RULE:
        each = [area(line, rule, metric) for rule in rules_in(line)]
        return max((e for e in each if e is not None), key=lambda e: abs(e.value - 0.5), default=None)
    found = line.estimates(attack=attack, metric=metric)
    if not found:
        return None
    pooled = over_seeds(found)
    return replace(pooled, low=max(0.0, pooled.low), high=min(1.0, pooled.high))


def _ahead(line: Line, attack: str) -> bool:
    """Whether the attack is ahead of every rule in every seed."""
    found = line.estimates(attack=attack, metric="auc_ahead_of_rules")
    return bool(found) and all(e.low > 0 for e in found)


def _table(named: str, mine: Sequence[Line]) -> Json:
    who = list(dict.fromkeys(name for line in mine for name in attacks_in(line)))
    rows = []
    for line in mine:
        cells: Json = {name: _plain(area(line, name)) for name in (RULE, *who)} if line.results else {}
        ahead = [name for name in who if line.results and _ahead(line, name)]
        missing = line.wanted - len(line.results)
        why = f" ({len(line.errors)} failed, {missing - len(line.errors)} not run)" if missing else ""
        cells |= {"seeds": f"{len(line.results)}{why}", "ahead": ", ".join(ahead) or ("none" if who else None)}
        rows.append({"label": f"{line.at['shadow']} -> {line.at['target']}", "cells": cells})
    columns = [{"key": name, "label": name, "digits": 3, "signed": False} for name in (RULE, *who)]
    columns += [{"key": key, "label": label, "digits": 3, "signed": False} for key, label in _LAST.items()]
    note = "AUC of each attack, shadow -> target, with 95 % intervals; the best rule is chosen on the target itself."
    return {"id": f"membership: {named}", "title": named, "note": note, "columns": columns, "rows": rows}


_LAST = {"ahead": "ahead of every rule", "seeds": "seeds"}


def _heats(named: str, mine: Sequence[Line]) -> list[Json]:
    """A square of shadow by target for each attack and for the best rule; where nothing was measured it is empty."""
    labels = list(dict.fromkeys([line.at["shadow"] for line in mine] + [line.at["target"] for line in mine]))
    who = list(dict.fromkeys(name for line in mine for name in attacks_in(line)))
    heats = []
    for name in (RULE, *who):
        cells = [
            {"shadow": line.at["shadow"], "target": line.at["target"], "auc": found.value}
            for line in mine
            if line.results and (found := area(line, name)) is not None
        ]
        if len(labels) > 1 and cells:
            heats.append({"title": f"{name}: {named}", "labels": labels, "cells": cells})
    return heats


def _advice(found: Sequence[Line]) -> str:
    """What the cells come to, in words."""
    done = [line for line in found if line.results]
    pairs = [(line, name) for line in done for name in attacks_in(line)]
    if not pairs:
        return "No attack was measured, so nothing can be said."
    above = [(line, name) for line, name in pairs if (a := area(line, name)) is not None and a.low > 0.5]
    ahead = [(line, name) for line, name in above if _ahead(line, name)]
    holes = sum(line.wanted - len(line.results) for line in found)
    said = [
        f"Of {len(pairs)} attacks in all settings, {len(above)} tell members apart better than guessing, "
        f"{len(ahead)} of them better than every rule that needs no learning."
    ]
    if above and not ahead:
        said.append("What they find is explained by how non-members are served: serve them as members are served.")
    if ahead:
        worst = max(ahead, key=lambda pair: area(*pair).value)  # type: ignore[union-attr]
        a = area(*worst)
        assert a is not None
        said.append(
            f"The strongest of these is {worst[1]} on {worst[0].at['data']}, {worst[0].at['shadow']} against "
            f"{worst[0].at['target']}, others served by {worst[0].at['serving']}: {a.value:.3f} "
            f"[{a.low:.3f}, {a.high:.3f}]."
        )
    if holes:
        said.append(f"Not known: what {holes} cells that failed or were not run would add.")
    return " ".join(said)


def _plain(estimate: Estimate | None) -> Any:
    return None if estimate is None else estimate.to_dict()
