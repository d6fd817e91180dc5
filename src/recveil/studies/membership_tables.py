"""What a membership study says: who can be told by which attack, shadow by target, beside the best rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from recveil.core.types import Estimate
from recveil.studies.pooled_seeds import PooledCell, pool_seeds

__all__ = ["pool_attack_metric", "list_attacks", "build_membership_parts", "list_rules"]

Json = dict[str, Any]
BEST_RULE = "best rule"


def build_membership_parts(found: Sequence[PooledCell]) -> Json:
    """Tables and heat maps, one set for each data set, way of serving, defense and kind of item vectors."""
    groups: dict[tuple[str, ...], list[PooledCell]] = {}
    for line in found:
        key = tuple(line.at[name] for name in ("data", "serving", "defense", "generator"))
        groups.setdefault(key, []).append(line)
    tables, heats = [], []
    for (data, serving, defense, generator), mine in groups.items():
        named = f"{data}, others served by {serving}, item vectors from {generator}"
        named += "" if defense == "none" else f", defense {defense}"
        tables.append(_build_table(named, mine))
        heats += _build_heat_maps(named, mine)
    return {"tables": tables, "heats": heats, "advice": [_write_advice(found)]}


def list_attacks(line: PooledCell) -> list[str]:
    """The attacks of a line, rules left out; a defended one is also met by an attacker who does not know of it."""
    named = dict.fromkeys(r["attack"] for result in line.results for r in result["records"] if r["metric"] == "auc")
    rules = list_rules(line)
    return [name for name in named if name not in rules and name.removesuffix(", static") not in rules]


def list_rules(line: PooledCell) -> list[str]:
    """The rules that ran beside them."""
    told = line.results[0]["details"]["attacks"] if line.results else {}
    return [name for name, found in told.items() if found["rule"]]


def pool_attack_metric(line: PooledCell, attack: str, metric: str = "auc") -> Estimate | None:
    """Of one attack, over the seeds; of `BEST_RULE` that of the rule that is furthest from chance on the target itself."""
    if attack == BEST_RULE:
        each = [pool_attack_metric(line, rule, metric) for rule in list_rules(line)]
        return max((e for e in each if e is not None), key=lambda e: abs(e.value - 0.5), default=None)
    found = line.estimates(attack=attack, metric=metric)
    if not found:
        return None
    pooled = pool_seeds(found)
    return replace(pooled, low=max(0.0, pooled.low), high=min(1.0, pooled.high))


def _beats_all_rules(line: PooledCell, attack: str) -> bool:
    """Whether the attack is ahead of every rule in every seed."""
    found = line.estimates(attack=attack, metric="auc_ahead_of_rules")
    return bool(found) and all(e.low > 0 for e in found)


def _build_table(named: str, mine: Sequence[PooledCell]) -> Json:
    who = list(dict.fromkeys(name for line in mine for name in list_attacks(line)))
    rows = []
    for line in mine:
        cells: Json = (
            {name: _plain(pool_attack_metric(line, name)) for name in (BEST_RULE, *who)} if line.results else {}
        )
        ahead = [name for name in who if line.results and _beats_all_rules(line, name)]
        missing = line.wanted - len(line.results)
        why = f" ({len(line.errors)} failed, {missing - len(line.errors)} not run)" if missing else ""
        cells |= {"seeds": f"{len(line.results)}{why}", "ahead": ", ".join(ahead) or ("none" if who else None)}
        rows.append({"label": f"{line.at['shadow']} -> {line.at['target']}", "cells": cells})
    columns = [{"key": name, "label": name, "digits": 3, "signed": False} for name in (BEST_RULE, *who)]
    columns += [{"key": key, "label": label, "digits": 3, "signed": False} for key, label in _LAST.items()]
    note = "AUC of each attack, shadow -> target, with 95 % intervals; the best rule is chosen on the target itself."
    return {"id": f"membership: {named}", "title": named, "note": note, "columns": columns, "rows": rows}


_LAST = {"ahead": "ahead of every rule", "seeds": "seeds"}


def _build_heat_maps(named: str, mine: Sequence[PooledCell]) -> list[Json]:
    """A square of shadow by target for each attack and for the best rule; where nothing was measured it is empty."""
    labels = list(dict.fromkeys([line.at["shadow"] for line in mine] + [line.at["target"] for line in mine]))
    who = list(dict.fromkeys(name for line in mine for name in list_attacks(line)))
    heats = []
    for name in (BEST_RULE, *who):
        cells = [
            {"shadow": line.at["shadow"], "target": line.at["target"], "auc": found.value}
            for line in mine
            if line.results and (found := pool_attack_metric(line, name)) is not None
        ]
        if len(labels) > 1 and cells:
            heats.append({"title": f"{name}: {named}", "labels": labels, "cells": cells})
    return heats


def _write_advice(found: Sequence[PooledCell]) -> str:
    """What the cells come to, in words."""
    done = [line for line in found if line.results]
    pairs = [(line, name) for line in done for name in list_attacks(line)]
    if not pairs:
        return "No attack was measured, so nothing can be said."
    above = [(line, name) for line, name in pairs if (a := pool_attack_metric(line, name)) is not None and a.low > 0.5]
    ahead = [(line, name) for line, name in above if _beats_all_rules(line, name)]
    holes = sum(line.wanted - len(line.results) for line in found)
    said = [
        f"Of {len(pairs)} attacks in all settings, {len(above)} tell members apart better than guessing, "
        f"{len(ahead)} of them better than every rule that needs no learning."
    ]
    if above and not ahead:
        said.append("What they find is explained by how non-members are served: serve them as members are served.")
    if ahead:
        worst = max(ahead, key=lambda pair: pool_attack_metric(*pair).value)  # type: ignore[union-attr]
        a = pool_attack_metric(*worst)
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
