"""The rehearsal of a defense: hide known classes from it, defend the table, attack the hidden users."""

from __future__ import annotations

from collections.abc import Sequence

from recveil.attacks.attribute.classifiers import as_attack
from recveil.attacks.attribute.panels import parse_attackers
from recveil.audits.attribute.rehearsal import attack_hidden_users, hide_classes
from recveil.core.protocols import TableView, UtilityLoss
from recveil.core.rehearsal_parts import Rehearsal
from recveil.core.types import Attribute, FloatArray
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.defended_release import ChosenDefense, defend_vectors

__all__ = ["REHEARSED_SHARE", "rehearse_defense"]

REHEARSED_SHARE = 0.3
"""Share of the disclosed users whose class is hidden where nobody names another."""


def rehearse_defense(
    x: FloatArray,
    targets: Sequence[Attribute],
    defense: ChosenDefense,
    protocol: AuditProtocol,
    *,
    share: float = REHEARSED_SHARE,
    utility: UtilityLoss | None = None,
    view: TableView | None = None,
) -> Rehearsal:
    """Measure what attackers find out about users whose class the defense is not given.

    Args:
        x: the undefended vectors.
        targets: attributes to protect, with classes.
        defense: the defense, by its name; not `auto`.
        protocol: the rules of the audits; attacks, seed and device are used.
        share: share of the disclosed users to hide.
        utility: loss of the recommendations, for defenses that weigh it.
        view: what attackers see beside the vectors, for defenses that can hide it.

    Raises:
        DataError: a class has too few users.
    """
    shown = [hide_classes(target, share, seed=protocol.seed) for target in targets]
    method = defense.make(protocol.device)
    defended = defend_vectors(method, x, shown, seed=protocol.draw_seed, utility=utility, view=view)
    chosen = protocol.attacks or parse_attackers(protocol.panel, protocol.device)
    attacks = {name: as_attack(attack, name) for name, attack in chosen.items()}
    found = {
        target.name: attack_hidden_users(defended, target, given, attacks, seed=protocol.seed)
        for target, given in zip(targets, shown, strict=True)
    }
    return Rehearsal(method=defense.name, share=share, targets=found)
