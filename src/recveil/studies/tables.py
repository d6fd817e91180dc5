"""What a folder of results says, as one plain dict: tables with holes where cells failed, frontiers, wins, advice.

A table is `{"id", "title", "note", "columns": [...], "rows": [...]}`; a column has `key`, `label` and how it is
printed; a row has `label` and `cells` by key: an estimate, a number, a text, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from recveil.studies.contests import LOSS, Entrant, advice, entrants, frontier, wins
from recveil.studies.membership_tables import membership_parts
from recveil.studies.pooled_seeds import Line, lines
from recveil.studies.store import Store

__all__ = ["SCHEMA", "column", "findings", "table"]

SCHEMA = 1
Json = dict[str, Any]

BESIDE = {"panel": "{}", "surface": "surface {}", "leak_ratio": "{} of users known"}
"""Coordinates that a title names only where a plan has several of them."""

STEPS = {"train undefended": "train undefended", "train": "train defended", "defend": "defend", "audit": "audit"}


def findings(store: Store, argv: Sequence[str] = ()) -> Json:
    """The study in this folder, as far as it was run."""
    plan = store.plan()
    found = lines(plan, [store])
    parts = membership_parts(found) if plan.kind == "membership" else _attribute_parts(found)
    wanted, done = sum(line.wanted for line in found), sum(len(line.results) for line in found)
    failed = sum(len(line.errors) for line in found)
    return {
        "schema": SCHEMA,
        "recveil": version("recveil"),
        "command": "study",
        "argv": list(argv),
        "name": plan.name,
        "size": plan.size,
        "kind": plan.kind,
        "title": plan.title,
        "source": plan.source,
        "about": " ".join(plan.about.split()),
        "cells": {"wanted": wanted, "done": done, "failed": failed, "missing": wanted - done - failed},
        "failures": [{"cell": _named(line.at), "error": e} for line in found for e in dict.fromkeys(line.errors)],
        "settings": plan.settings.model_dump(),
        **parts,
    }


def column(key: str, label: str, digits: int = 3, *, signed: bool = False) -> Json:
    """How a column is headed and printed."""
    return {"key": key, "label": label, "digits": digits, "signed": signed}


def table(identity: str, title: str, note: str, columns: Sequence[Json], rows: Iterable[Json]) -> Json:
    """A table; columns that no row has anything in are left out."""
    rows = list(rows)
    used = [c for c in columns if any(row["cells"].get(c["key"]) is not None for row in rows)]
    return {"id": identity, "title": title, "note": note, "columns": used, "rows": rows}


def _named(at: Mapping[str, str]) -> str:
    return ", ".join(at.values())


def _attribute_parts(found: Sequence[Line]) -> Json:
    several = {key for key in BESIDE if len({line.at[key] for line in found}) > 1}
    groups: dict[tuple[str, ...], list[Line]] = {}
    for line in found:
        groups.setdefault(tuple(v for key, v in line.at.items() if key != "defense"), []).append(line)
    tables, frontiers, contests, words = [], [], [], []
    k = _k(found[0])
    for mine in groups.values():
        at = mine[0].at
        where = ", ".join([at["data"], at["model"], *(BESIDE[key].format(at[key]) for key in several)])
        for target in _targets(mine):
            named = f"{where}, {target}" + (f" (protected: {at['target']})" if target != at["target"] else "")
            tables.append(_attack_table(named, mine, target))
            contest = entrants(mine, target, k)
            if contest:
                contests.append(contest)
                frontiers.append({"title": named, **frontier(contest)})
            words.append(advice(contest, mine, target, named))
        tables.append(_utility_table(f"{where}, protected: {at['target']}", mine))
    return {
        "k": k,
        "tables": [*tables, _time_table(found)],
        "frontiers": frontiers,
        "volumes": _volumes(frontiers),
        "wins": _wins(contests, k),
        "advice": words,
    }


def _targets(mine: Sequence[Line]) -> list[str]:
    measured = [line.targets for line in mine if line.results]
    return measured[0] if measured else mine[0].at["target"].split("+")


def _k(line: Line) -> int:
    ks = line.settings["k"]
    return 10 if 10 in ks else int(ks[-1])


def _state(line: Line) -> str:
    """How many seeds a line has, and why not all."""
    done = f"{len(line.results)} of {line.wanted}" if len(line.results) < line.wanted else str(line.wanted)
    missing = line.wanted - len(line.results) - len(line.errors)
    why = [f"{len(line.errors)} failed"] * bool(line.errors) + [f"{missing} not run"] * bool(missing)
    return done + (f" ({', '.join(why)})" if why else "")


def _attack_table(named: str, mine: Sequence[Line], target: str) -> Json:
    who = list(dict.fromkeys(name for line in mine for name in line.attackers(target)))
    rows = []
    for line in mine:
        cells: Json = {"seeds": _state(line)}
        if line.results and target in line.targets:
            both = line.headline(target, "two_releases")
            cells |= {"advantage": _plain(line.headline(target)), "both": _plain(both)}
            cells |= {f"of {name}": _plain(line.attacker(target, name, _metric(line, target, name))) for name in who}
        rows.append({"label": line.at["defense"], "cells": cells})
    told = next((line.told(target) for line in mine if line.results), {})
    chance = f" Chance is {told['chance']:.3f}." if "chance" in told else ""
    note = (
        "Advantage of the best attacker (0 = guessing, 1 = certain), of one who holds the table from before as well, "
        f"and balanced accuracy of each attacker, with 95 % intervals.{chance}"
    )
    columns = [column("advantage", "advantage"), column("both", "with both tables")]
    columns += [column(f"of {name}", name) for name in who] + [column("seeds", "seeds")]
    return table(f"attackers: {named}", f"Attackers: {named}", note, columns, rows)


def _metric(line: Line, target: str, attack: str) -> str:
    return "balanced_accuracy" if line.estimates(attack=attack, target=target, metric="balanced_accuracy") else "r2"


def _utility_table(named: str, mine: Sequence[Line]) -> Json:
    ks, k = mine[0].settings["k"], _k(mine[0])
    rows = []
    for line in mine:
        cells: Json = {"seeds": _state(line)}
        if line.results:
            cells |= {f"{m}@{n}": line.ranking(m, n).to_dict() for m in ("ndcg", "hit_rate") for n in ks}
            if line.at["defense"] != "none":
                cells |= {"change": line.cost(k).to_dict(), "displacement": line.plain("displacement")}
        rows.append({"label": line.at["defense"], "cells": cells})
    heads = {"ndcg": "NDCG", "hit_rate": "HR"}
    columns = [column(f"{m}@{n}", f"{heads[m]}@{n}", 4) for m in ("ndcg", "hit_rate") for n in ks]
    columns += [column("change", f"NDCG@{k} change, %", 1, signed=True), column("displacement", "displacement")]
    note = "Test item, whole catalog ranked; the change is paired by user, mean over the seeds first."
    return table(f"ranking: {named}", f"Ranking: {named}", note, [*columns, column("seeds", "seeds")], rows)


def _time_table(found: Sequence[Line]) -> Json:
    """Seconds by step; who came second to a trained model only read it, so the largest mean is the telling one."""
    groups: dict[tuple[str, str, str], list[Line]] = {}
    for line in found:
        groups.setdefault((line.at["data"], line.at["model"], line.at["defense"]), []).append(line)
    rows = []
    for (data, model, defense), mine in groups.items():
        times = {step: [t for line in mine if (t := line.time(step)) is not None] for step in STEPS}
        cells = {step: max(seen) for step, seen in times.items() if seen}
        rows.append({"label": f"{data}, {model}, {defense}", "cells": cells})
    note = "Mean seconds of a cell in each step, largest over targets and panels. A model trained before is only read."
    return table("time", "Time", note, [column(step, label, 2) for step, label in STEPS.items()], rows)


def _volumes(frontiers: Sequence[Json]) -> Json:
    """The mean hypervolume of each defense over the contests it took part in."""
    seen: dict[str, list[float]] = {}
    for one in frontiers:
        for point in one["points"]:
            if point["hypervolume"] is not None:
                seen.setdefault(point["defense"], []).append(point["hypervolume"])
    rows = [
        {"label": name, "cells": {"volume": float(np.mean(values)), "contests": str(len(values))}}
        for name, values in sorted(seen.items(), key=lambda item: -float(np.mean(item[1])))
    ]
    note = (
        "Share of the room between nothing leaked at no cost and the reference point (the undefended advantage, at a "
        f"loss of {LOSS:g} % of NDCG) that the defense reaches; mean over data sets, models and targets."
    )
    columns = [column("volume", "hypervolume"), column("contests", "contests")]
    return table("volumes", "Hypervolume", note, columns, rows)


def _wins(contests: Sequence[Sequence[Entrant]], k: int) -> Json:
    rows = [
        {"label": row["defense"], "cells": {key: str(row[key]) for key in ("won", "lost", "open")}}
        for row in wins(contests, k)
    ]
    note = (
        "Each pair of defenses in each contest. Won: clearly better in privacy or in ranking and clearly worse in "
        "neither (paired 95 % intervals, not corrected for their number)."
    )
    return table("wins", "Wins", note, [column(key, key) for key in ("won", "lost", "open")], rows)


def _plain(estimate: Any) -> Any:
    return None if estimate is None else estimate.to_dict()
