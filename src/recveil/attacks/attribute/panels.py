"""Attacker panels: attacks that are run together, made from their traits.

An attack joins a panel by naming it in its traits; attacks of other packages may do so too. Listing panels imports
no attack.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING

from recveil.attacks.attribute import ATTRIBUTE_ATTACKS
from recveil.core.errors import unknown_name
from recveil.core.traits import AttackTraits

if TYPE_CHECKING:
    from recveil.attacks.attribute.tasks import Attack

__all__ = [
    "is_blind",
    "make_attack",
    "make_panel",
    "missing_members",
    "panel_members",
    "panel_names",
    "parse_attackers",
]


def panel_names() -> tuple[str, ...]:
    """Return the names of all panels, in alphabetical order."""
    return tuple(sorted({panel for traits in ATTRIBUTE_ATTACKS.all_traits() for panel in traits.panels}))


def panel_members(panel: str) -> tuple[str, ...]:
    """Return the names of a panel's attacks by rank, installed or not."""
    if panel not in panel_names():
        raise unknown_name("panel", panel, panel_names())
    return tuple(traits.name for traits in _sort_by_rank() if panel in traits.panels)


def missing_members(panel: str) -> tuple[str, ...]:
    """Return the names of a panel's attacks whose optional package is not installed."""
    return tuple(name for name in panel_members(panel) if not ATTRIBUTE_ATTACKS.traits(name).is_installed)


def is_blind(name: str) -> bool:
    """Return whether the attack of this name ignores the vectors.

    Blind attacks never speak for a panel.
    """
    return name in ATTRIBUTE_ATTACKS and ATTRIBUTE_ATTACKS.traits(name).is_blind


def make_attack(name: str, device: str | None = None) -> Attack:
    """Make the attack of this name; `device` is passed on to attacks that run on one."""
    from recveil.attacks.attribute.classifiers import ClassifierAttack, as_attack

    traits, builder = ATTRIBUTE_ATTACKS.traits(name), ATTRIBUTE_ATTACKS.load(name)
    if _makes_classifiers(builder):
        return _wrap_builder(name, device)
    attack = as_attack(ATTRIBUTE_ATTACKS.make(name, device=device, **traits.options), name)
    if isinstance(attack, ClassifierAttack):
        return replace(
            attack,
            standardize=attack.standardize and traits.standardize,
            is_python_bound=attack.is_python_bound or traits.is_python_bound,
        )
    return attack


def make_panel(panel: str = "fast", device: str | None = None) -> dict[str, Attack]:
    """Make the attacks of a panel; those whose package is not installed are left out."""
    missing = missing_members(panel)
    return {name: make_attack(name, device) for name in panel_members(panel) if name not in missing}


def parse_attackers(text: str, device: str | None = None) -> dict[str, Attack]:
    """Make the attacks of a panel, or those that are named between commas."""
    if text in panel_names():
        return make_panel(text, device)
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in ATTRIBUTE_ATTACKS:
            if len(names) == 1:
                raise unknown_name("panel or attacker", name, {*panel_names(), *ATTRIBUTE_ATTACKS})
            raise unknown_name("attacker", name, ATTRIBUTE_ATTACKS)
    return {name: make_attack(name, device) for name in names}


def _sort_by_rank() -> list[AttackTraits]:
    return sorted(ATTRIBUTE_ATTACKS.all_traits(), key=lambda traits: (traits.rank, traits.name))


def _makes_classifiers(builder: object) -> bool:
    """Whether the builder makes one classifier for each task, from a seed."""
    from recveil.attacks.attribute.tasks import Attack

    is_attack = isinstance(builder, type) and issubclass(builder, Attack)
    return not is_attack and "seed" in _parameters_of(builder)


def _wrap_builder(name: str, device: str | None) -> Attack:
    from recveil.attacks.attribute.classifiers import BaggedAttack, ClassifierAttack

    traits, builder = ATTRIBUTE_ATTACKS.traits(name), ATTRIBUTE_ATTACKS.load(name)
    placed = {"device": device} if "device" in _parameters_of(builder) else {}
    attack_type = BaggedAttack if traits.predicts_left_out else ClassifierAttack
    return attack_type(
        builder,
        {**traits.options, **placed},
        standardize=traits.standardize,
        is_python_bound=traits.is_python_bound,
        label=name,
    )


def _parameters_of(builder: object) -> set[str]:
    return set(inspect.signature(builder).parameters) if callable(builder) else set()
