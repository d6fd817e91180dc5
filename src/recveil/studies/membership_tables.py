"""Tables, heat maps and advice of a study that attacks membership: shadow by target, beside the best rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recveil.core.study_parts import HeatCell, HeatMap, StudyTable, TableValue
from recveil.core.types import Estimate
from recveil.studies.pooled_seeds import PooledCell, pool_seeds
from recveil.studies.tables import StudyContent, make_column, make_row

__all__ = ["BEST_RULE", "build_membership_content", "estimate_metric", "list_attacks", "list_rules"]

BEST_RULE = "best rule"
LAST_COLUMNS = {"ahead": "ahead of every rule", "seeds": "seeds"}


def build_membership_content(pooled: Sequence[PooledCell]) -> StudyContent:
    """Build tables and heat maps, one set for each data set, way of serving, defense and kind of item vectors."""
    groups: dict[tuple[str, ...], list[PooledCell]] = {}
    for cells in pooled:
        key = tuple(cells.at[axis] for axis in ("data", "serving", "defense", "generator"))
        groups.setdefault(key, []).append(cells)
    content = StudyContent(advice=[_write_advice(pooled)])
    for (data, serving, _, generator), group in groups.items():
        title = f"{data}, non-members served by {serving}, item vectors from {generator}"
        title += "" if group[0].is_undefended else f", defense {group[0].at['defense']}"
        content.tables.append(_build_attack_table(title, group))
        content.heats.extend(_build_heat_maps(title, group))
    return content


def list_attacks(cells: PooledCell) -> list[str]:
    """List the attacks without the rules; ", static" marks attackers who do not know of the defense."""
    names = dict.fromkeys(r.attack for result in cells.results for r in result.records if r.metric == "auc")
    rules = list_rules(cells)
    return [name for name in names if name.removesuffix(", static") not in rules]


def list_rules(cells: PooledCell) -> list[str]:
    """List the rules that ran beside the attacks."""
    if not cells.results:
        return []
    return [name for name, attack in cells.results[0].membership_details.attacks.items() if attack.rule]


def estimate_metric(cells: PooledCell, attack: str, metric: str = "auc") -> Estimate | None:
    """Estimate a metric of an attack over the seeds; for `BEST_RULE` that of the rule furthest from chance."""
    if attack == BEST_RULE:
        rules = [estimate_metric(cells, rule, metric) for rule in list_rules(cells)]
        return max((e for e in rules if e is not None), key=lambda e: abs(e.value - 0.5), default=None)
    estimates = cells.select_estimates(attack=attack, metric=metric)
    if not estimates:
        return None
    pooled = pool_seeds(estimates)
    return replace(pooled, low=max(0.0, pooled.low), high=min(1.0, pooled.high))


def _beats_all_rules(cells: PooledCell, attack: str) -> bool:
    """Return whether the attack is ahead of every rule in every seed."""
    gaps = cells.select_estimates(attack=attack, metric="auc_ahead_of_rules")
    return bool(gaps) and all(gap.low > 0 for gap in gaps)


def _list_all_attacks(group: Sequence[PooledCell]) -> list[str]:
    return list(dict.fromkeys(name for cells in group for name in list_attacks(cells)))


def _build_attack_table(title: str, group: Sequence[PooledCell]) -> StudyTable:
    attacks = _list_all_attacks(group)
    rows = []
    for cells in group:
        values: dict[str, TableValue] = {}
        if cells.results:
            values |= {name: estimate_metric(cells, name) for name in (BEST_RULE, *attacks)}
        ahead = [name for name in attacks if cells.results and _beats_all_rules(cells, name)]
        not_run = cells.n_missing - len(cells.errors)
        reason = f" ({len(cells.errors)} failed, {not_run} not run)" if cells.n_missing else ""
        values["seeds"] = f"{len(cells.results)}{reason}"
        values["ahead"] = ", ".join(ahead) or ("none" if attacks else None)
        rows.append(make_row(f"{cells.at['shadow']} -> {cells.at['target']}", values))
    columns = [make_column(name, name) for name in (BEST_RULE, *attacks)]
    columns += [make_column(key, label) for key, label in LAST_COLUMNS.items()]
    note = "AUC of each attack, shadow -> target, with 95 % intervals; the best rule is chosen on the target itself."
    return StudyTable(id=f"membership: {title}", title=title, note=note, columns=columns, rows=rows)


def _build_heat_maps(title: str, group: Sequence[PooledCell]) -> list[HeatMap]:
    """Build a map of shadow by target for the best rule and for each attack; what was not measured is left out."""
    labels = list(dict.fromkeys([c.at["shadow"] for c in group] + [c.at["target"] for c in group]))
    maps = []
    for name in (BEST_RULE, *_list_all_attacks(group)):
        squares = [
            HeatCell(shadow=cells.at["shadow"], target=cells.at["target"], auc=auc.value)
            for cells in group
            if cells.results and (auc := estimate_metric(cells, name)) is not None
        ]
        if len(labels) > 1 and squares:
            maps.append(HeatMap(title=f"{name}: {title}", labels=labels, cells=squares))
    return maps


@dataclass(frozen=True, eq=False)
class _MeasuredAttack:
    """One attack in one setting, with its AUC over the seeds."""

    name: str
    cells: PooledCell
    auc: Estimate

    def describe(self) -> str:
        """Say where it was run and what it reached."""
        at = self.cells.at
        return (
            f"{self.name} on {at['data']}, {at['shadow']} against {at['target']}, non-members served by "
            f"{at['serving']}: {self.auc.value:.3f} [{self.auc.low:.3f}, {self.auc.high:.3f}]"
        )


def _write_advice(pooled: Sequence[PooledCell]) -> str:
    """Write in words what the cells come to."""
    pairs = [(cells, name) for cells in pooled for name in list_attacks(cells)]
    measured = [_MeasuredAttack(n, c, auc) for c, n in pairs if (auc := estimate_metric(c, n)) is not None]
    if not measured:
        return "No attack was measured, so nothing can be said."
    above = [attack for attack in measured if attack.auc.low > 0.5]
    ahead = [attack for attack in above if _beats_all_rules(attack.cells, attack.name)]
    holes = sum(cells.n_missing for cells in pooled)
    sentences = [
        f"{len(above)} of {len(measured)} attacks in all settings tell members from non-members better than guessing, "
        f"{len(ahead)} of them better than every rule that needs no learning."
    ]
    if above and not ahead:
        sentences.append(
            "The serving rule explains what they find: serve non-members as members are served to remove it."
        )
    if ahead:
        strongest = max(ahead, key=lambda attack: attack.auc.value)
        sentences.append(f"The strongest of these is {strongest.describe()}.")
    if holes:
        sentences.append(f"Not known: what {holes} cells that failed or were not run would add.")
    return " ".join(sentences)
