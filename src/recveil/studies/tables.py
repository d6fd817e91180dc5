"""What a folder of results says, as one plain dict: tables with holes where cells failed, frontiers, wins, advice.

A table is `{"id", "title", "note", "columns": [...], "rows": [...]}`; a column has `key`, `label` and how it is
printed; a row has `label` and `cells` by key: an estimate, a number, a text, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from recveil.studies.contests import (
    MAX_LOSS_PERCENT,
    Entrant,
    build_frontier,
    count_wins,
    select_entrants,
    write_advice,
)
from recveil.studies.membership_tables import build_membership_parts
from recveil.studies.pooled_seeds import PooledCell, pool_plan
from recveil.studies.store import Store

__all__ = ["SCHEMA", "make_column", "build_study_result", "build_table"]

SCHEMA = 1
Json = dict[str, Any]

TITLE_COORDINATES = {"panel": "{}", "surface": "surface {}", "leak_ratio": "{} of users known"}
"""Coordinates that a title names only where a plan has several of them."""

TIMED_STEPS = {"train undefended": "train undefended", "train": "train defended", "defend": "defend", "audit": "audit"}


def build_study_result(store: Store, argv: Sequence[str] = ()) -> Json:
    """The study in this folder, as far as it was run."""
    plan = store.read_plan()
    found = pool_plan(plan, [store])
    parts = build_membership_parts(found) if plan.kind == "membership" else _build_attribute_parts(found)
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
        "failures": [{"cell": _name_cell(line.at), "error": e} for line in found for e in dict.fromkeys(line.errors)],
        "settings": plan.settings.model_dump(),
        **parts,
    }


def make_column(key: str, label: str, digits: int = 3, *, signed: bool = False) -> Json:
    """How a column is headed and printed."""
    return {"key": key, "label": label, "digits": digits, "signed": signed}


def build_table(identity: str, title: str, note: str, columns: Sequence[Json], rows: Iterable[Json]) -> Json:
    """A table; columns that no row has anything in are left out."""
    rows = list(rows)
    used = [c for c in columns if any(row["cells"].get(c["key"]) is not None for row in rows)]
    return {"id": identity, "title": title, "note": note, "columns": used, "rows": rows}


def _name_cell(at: Mapping[str, str]) -> str:
    return ", ".join(at.values())


def _build_attribute_parts(found: Sequence[PooledCell]) -> Json:
    several = {key for key in TITLE_COORDINATES if len({line.at[key] for line in found}) > 1}
    groups: dict[tuple[str, ...], list[PooledCell]] = {}
    for line in found:
        groups.setdefault(tuple(v for key, v in line.at.items() if key != "defense"), []).append(line)
    tables, frontiers, contests, words = [], [], [], []
    k = _choose_k(found[0])
    for mine in groups.values():
        at = mine[0].at
        where = ", ".join([at["data"], at["model"], *(TITLE_COORDINATES[key].format(at[key]) for key in several)])
        for target in _list_targets(mine):
            named = f"{where}, {target}" + (f" (protected: {at['target']})" if target != at["target"] else "")
            tables.append(_build_attack_table(named, mine, target))
            contest = select_entrants(mine, target, k)
            if contest:
                contests.append(contest)
                frontiers.append({"title": named, **build_frontier(contest)})
            words.append(write_advice(contest, mine, target, named))
        tables.append(_build_utility_table(f"{where}, protected: {at['target']}", mine))
    return {
        "k": k,
        "tables": [*tables, _build_time_table(found)],
        "frontiers": frontiers,
        "volumes": _build_volumes(frontiers),
        "wins": _build_wins(contests, k),
        "advice": words,
    }


def _list_targets(mine: Sequence[PooledCell]) -> list[str]:
    measured = [line.targets for line in mine if line.results]
    return measured[0] if measured else mine[0].at["target"].split("+")


def _choose_k(line: PooledCell) -> int:
    ks = line.settings["k"]
    return 10 if 10 in ks else int(ks[-1])


def _describe_seeds(line: PooledCell) -> str:
    """How many seeds a line has, and why not all."""
    done = f"{len(line.results)} of {line.wanted}" if len(line.results) < line.wanted else str(line.wanted)
    missing = line.wanted - len(line.results) - len(line.errors)
    why = [f"{len(line.errors)} failed"] * bool(line.errors) + [f"{missing} not run"] * bool(missing)
    return done + (f" ({', '.join(why)})" if why else "")


def _build_attack_table(named: str, mine: Sequence[PooledCell], target: str) -> Json:
    who = list(dict.fromkeys(name for line in mine for name in line.attackers(target)))
    rows = []
    for line in mine:
        cells: Json = {"seeds": _describe_seeds(line)}
        if line.results and target in line.targets:
            both = line.headline(target, "two_releases")
            cells |= {"advantage": _plain(line.headline(target)), "both": _plain(both)}
            cells |= {
                f"of {name}": _plain(line.attacker(target, name, _choose_metric(line, target, name))) for name in who
            }
        rows.append({"label": line.at["defense"], "cells": cells})
    told = next((line.told(target) for line in mine if line.results), {})
    chance = f" Chance is {told['chance']:.3f}." if "chance" in told else ""
    note = (
        "Advantage of the best attacker (0 = guessing, 1 = certain), of one who holds the table from before as well, "
        f"and balanced accuracy of each attacker, with 95 % intervals.{chance}"
    )
    columns = [make_column("advantage", "advantage"), make_column("both", "with both tables")]
    columns += [make_column(f"of {name}", name) for name in who] + [make_column("seeds", "seeds")]
    return build_table(f"attackers: {named}", f"Attackers: {named}", note, columns, rows)


def _choose_metric(line: PooledCell, target: str, attack: str) -> str:
    return "balanced_accuracy" if line.estimates(attack=attack, target=target, metric="balanced_accuracy") else "r2"


def _build_utility_table(named: str, mine: Sequence[PooledCell]) -> Json:
    ks, k = mine[0].settings["k"], _choose_k(mine[0])
    rows = []
    for line in mine:
        cells: Json = {"seeds": _describe_seeds(line)}
        if line.results:
            cells |= {f"{m}@{n}": line.ranking(m, n).to_dict() for m in ("ndcg", "hit_rate") for n in ks}
            if line.at["defense"] != "none":
                cells |= {"change": line.cost(k).to_dict(), "displacement": line.plain("displacement")}
        rows.append({"label": line.at["defense"], "cells": cells})
    heads = {"ndcg": "NDCG", "hit_rate": "HR"}
    columns = [make_column(f"{m}@{n}", f"{heads[m]}@{n}", 4) for m in ("ndcg", "hit_rate") for n in ks]
    columns += [
        make_column("change", f"NDCG@{k} change, %", 1, signed=True),
        make_column("displacement", "displacement"),
    ]
    note = "Test item, whole catalog ranked; the change is paired by user, mean over the seeds first."
    return build_table(f"ranking: {named}", f"Ranking: {named}", note, [*columns, make_column("seeds", "seeds")], rows)


def _build_time_table(found: Sequence[PooledCell]) -> Json:
    """Seconds by step; who came second to a trained model only read it, so the largest mean is the telling one."""
    groups: dict[tuple[str, str, str], list[PooledCell]] = {}
    for line in found:
        groups.setdefault((line.at["data"], line.at["model"], line.at["defense"]), []).append(line)
    rows = []
    for (data, model, defense), mine in groups.items():
        times = {step: [t for line in mine if (t := line.time(step)) is not None] for step in TIMED_STEPS}
        cells = {step: max(seen) for step, seen in times.items() if seen}
        rows.append({"label": f"{data}, {model}, {defense}", "cells": cells})
    note = "Mean seconds of a cell in each step, largest over targets and panels. A model trained before is only read."
    return build_table("time", "Time", note, [make_column(step, label, 2) for step, label in TIMED_STEPS.items()], rows)


def _build_volumes(frontiers: Sequence[Json]) -> Json:
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
        f"loss of {MAX_LOSS_PERCENT:g} % of NDCG) that the defense reaches; mean over data sets, models and targets."
    )
    columns = [make_column("volume", "hypervolume"), make_column("contests", "contests")]
    return build_table("volumes", "Hypervolume", note, columns, rows)


def _build_wins(contests: Sequence[Sequence[Entrant]], k: int) -> Json:
    rows = [
        {"label": row["defense"], "cells": {key: str(row[key]) for key in ("won", "lost", "open")}}
        for row in count_wins(contests, k)
    ]
    note = (
        "Each pair of defenses in each contest. Won: clearly better in privacy or in ranking and clearly worse in "
        "neither (paired 95 % intervals, not corrected for their number)."
    )
    return build_table("wins", "Wins", note, [make_column(key, key) for key in ("won", "lost", "open")], rows)


def _plain(estimate: Any) -> Any:
    return None if estimate is None else estimate.to_dict()
