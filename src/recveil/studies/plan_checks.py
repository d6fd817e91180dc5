"""Checks of a plan before anything is trained: names, options, attributes that a data set lacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from recveil.attacks.attribute.panels import parse_attackers
from recveil.attacks.attribute.surfaces import VIEWS
from recveil.core.errors import UsageError, unknown_name
from recveil.core.types import Dataset
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.defenses import DEFENSES
from recveil.models.construction import make_model
from recveil.studies.attribute_cells import make_folds, select_cell_targets
from recveil.studies.cells import UNDEFENDED, Cell
from recveil.studies.membership_cells import build_scenario, choose_item_source, parse_attacks
from recveil.studies.plans import Plan
from recveil.workflows.ranking_protocol import find_protocol

__all__ = ["check_plan"]


def check_plan(plan: Plan) -> int:
    """Return the number of cells, or raise the first error that would make one fail; each data set is loaded once."""
    cells = plan.cells()
    for name in dict.fromkeys(cell.data for cell in cells):
        check = _Check(load_dataset_or_demo(name, seed=0))
        for cell in cells:
            if cell.data == name:
                check.check_attribute_cell(cell) if plan.kind == "attribute" else check.check_membership_cell(cell)
    return len(cells)


@dataclass
class _Check:
    """Checks of the cells of one data set; each coordinate is checked once."""

    data: Dataset
    checked: set[str] = field(default_factory=set)

    def check_attribute_cell(self, cell: Cell) -> None:
        """Raise what would make this cell fail."""
        defense, surface = cell.choice("defense"), cell.at["surface"]
        self._check_model(cell, "model")
        if self._is_new("defense", defense) and not defense.is_undefended:
            traits = DEFENSES.traits(defense.name)
            if traits.place == "lists":
                use = "kind membership" if traits.hides_members else "`recveil cloak --lists-out`"
                raise UsageError(f"'{defense.name}' defends lists, not vectors. Use {use}.")
            DEFENSES.make(defense.name, **{"device": cell.device, **defense.options})
        if self._is_new("target", (cell.target, defense.name)):
            select_cell_targets(self.data.attributes, cell)
        if self._is_new("panel", cell.at["panel"]):
            parse_attackers(cell.at["panel"], cell.device)
        if surface not in ("vectors", *VIEWS):
            raise unknown_name("surface", surface, ("vectors", *VIEWS))
        if self._is_new("leak_ratio", cell.at["leak_ratio"]):
            make_folds(cell)
        find_protocol(cell.rules.protocol)

    def check_membership_cell(self, cell: Cell) -> None:
        """Raise what would make this cell fail."""
        defense = cell.choice("defense")
        self._check_model(cell, "target")
        self._check_model(cell, "shadow")
        if self._is_new("attack", cell.at["attack"]):
            parse_attacks(cell)
        if self._is_new("generator", cell.at["generator"]):
            choose_item_source(cell)
        if self._is_new("defense", defense) and not defense.is_undefended:
            known = [traits.name for traits in DEFENSES.all_traits() if traits.hides_members]
            if defense.name not in known:
                raise unknown_name("list defense", defense.name, (UNDEFENDED, *known))
            DEFENSES.make(defense.name, **defense.options)
        if self._is_new("serving", cell.at["serving"]):
            build_scenario(cell, Path())

    def _check_model(self, cell: Cell, axis: str) -> None:
        model = cell.choice(axis)
        if self._is_new("model", model):
            make_model(model.name, cell.data, model.options, cell.device, profile=cell.rules.profile)

    def _is_new(self, axis: str, value: object) -> bool:
        """Return whether this coordinate is met for the first time, and remember it."""
        text = f"{axis} {value}"
        is_new = text not in self.checked
        self.checked.add(text)
        return is_new
