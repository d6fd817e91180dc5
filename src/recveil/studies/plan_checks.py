"""What is wrong with a plan, found before anything is trained: names, options, attributes that a data set lacks."""

from __future__ import annotations

from pathlib import Path

from recveil.attacks.attribute.surfaces import VIEWS
from recveil.audits.catalog import DEFENSES, LIST_DEFENSES, make, model_for, place_of
from recveil.core.errors import UsageError, unknown_name
from recveil.core.types import Dataset
from recveil.data.sources.catalog import load_data
from recveil.studies.attribute_cells import attackers, make_folds, select_cell_targets
from recveil.studies.membership_cells import build_world, choose_item_source, parse_attacks
from recveil.studies.plans import Cell, Plan

__all__ = ["check_plan"]


def check_plan(plan: Plan) -> int:
    """Raise the first thing that would make a cell fail, or say how many cells can be run; data are loaded once."""
    cells = plan.cells()
    for name in dict.fromkeys(cell.at["data"] for cell in cells):
        data = load_data(name, seed=0)
        look = _check_attribute_cell if plan.kind == "attribute" else _check_membership_cell
        seen: set[str] = set()
        for cell in (c for c in cells if c.at["data"] == name):
            look(cell, data, seen)
    return len(cells)


def _check_attribute_cell(cell: Cell, data: Dataset, seen: set[str]) -> None:
    """Each coordinate that was not looked at yet."""
    at = cell.at
    if _is_new(seen, "model", at["model"]):
        model_for(at["data"], at["model"]["name"], at["model"]["options"], cell.device)
    if _is_new(seen, "defense", at["defense"]) and at["defense"]["name"] != "none":
        place = place_of(at["defense"]["name"])
        if place == "lists":
            raise UsageError(
                f"'{at['defense']['name']}' defends lists against membership attacks. Use kind membership."
            )
        make("defense", at["defense"]["name"], DEFENSES[place], device=cell.device, **at["defense"]["options"])
    if _is_new(seen, "target", (at["target"], at["defense"]["name"])):
        select_cell_targets(data.attributes, cell)
    if _is_new(seen, "panel", at["panel"]):
        attackers(at["panel"], cell.device)
    if at["surface"] not in ("vectors", *VIEWS):
        raise unknown_name("surface", at["surface"], ("vectors", *VIEWS))
    if _is_new(seen, "leak_ratio", at["leak_ratio"]):
        make_folds(cell)


def _check_membership_cell(cell: Cell, data: Dataset, seen: set[str]) -> None:
    for key in ("target", "shadow"):
        if _is_new(seen, "model", cell.at[key]):
            model_for(cell.at["data"], cell.at[key]["name"], cell.at[key]["options"], cell.device)
    if _is_new(seen, "attack", cell.at["attack"]):
        parse_attacks(cell)
    if _is_new(seen, "generator", cell.at["generator"]):
        choose_item_source(cell)
    if cell.at["defense"]["name"] not in ("none", *LIST_DEFENSES):
        raise unknown_name("list defense", cell.at["defense"]["name"], ("none", *LIST_DEFENSES))
    if _is_new(seen, "world", (cell.at["serving"], cell.at["defense"])):
        build_world(cell, Path())


def _is_new(seen: set[str], kind: str, value: object) -> bool:
    """Whether this coordinate is met for the first time."""
    text = f"{kind} {value}"
    fresh = text not in seen
    seen.add(text)
    return fresh
