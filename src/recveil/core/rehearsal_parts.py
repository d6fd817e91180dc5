"""Parts of the result documents: the rehearsal of what a defense does for undisclosed users."""

from __future__ import annotations

from recveil.core.result_parts import EstimateField, Number, Part

__all__ = ["Rehearsal", "RehearsalTarget"]


class RehearsalTarget(Part):
    """Advantages on users whose known class was hidden from the defense.

    Attributes:
        n_hidden: users whose class was hidden.
        from_disclosed: of an attacker who learned from the disclosed users.
        knows_some: of an attacker who also knew half of the hidden users.
        disclosure: of an attacker who tells who disclosed and who did not.
    """

    n_hidden: int
    from_disclosed: EstimateField
    knows_some: EstimateField
    disclosure: EstimateField


class Rehearsal(Part):
    """What attackers find out about undisclosed users, rehearsed on users whose class is known.

    Attributes:
        method: the defense.
        share: share of the disclosed users whose class was hidden from it.
        targets: each attribute.
    """

    method: str
    share: Number
    targets: dict[str, RehearsalTarget]

    def describe_target(self, name: str) -> str:
        """Return what was measured on one attribute, in words."""
        found = self.targets[name]
        return (
            f"Rehearsal for users who did not disclose {name}: {found.n_hidden:,} known users were hidden from "
            f"{self.method}. The advantage of an attacker who learned from disclosed users is "
            f"{_format_range(found.from_disclosed)}, of one who also knew half of the hidden users "
            f"{_format_range(found.knows_some)}; of telling who disclosed {_format_range(found.disclosure)}."
        )


def _format_range(estimate: EstimateField) -> str:
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})"
