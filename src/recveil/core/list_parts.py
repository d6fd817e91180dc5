"""Parts of results about lists that a defense made."""

from __future__ import annotations

from recveil.core.result_parts import Number, Part, Target, Utility

__all__ = ["DefendedLists"]


class DefendedLists(Part):
    """Lists that hide what they omit, and what attackers find in them.

    Attributes:
        method: the list defense.
        strength: its strength.
        length: places of a list.
        decoys: unseen items that were omitted above the end of a list, for each user on average.
        lists: attackers who see the lists.
        omissions: attackers who see what is missing from the lists.
        together: attackers who hold the defended vectors, the lists and what is missing from them.
        undefended_omissions: attackers who see what is missing from lists of the same vectors without the defense.
        undefended_together: attackers who hold the defended vectors and lists without the defense.
        utility: what the lists are worth, before (lists of the same vectors without it) and after.
    """

    method: str
    strength: float
    length: int
    decoys: Number
    lists: dict[str, Target]
    omissions: dict[str, Target]
    together: dict[str, Target]
    undefended_omissions: dict[str, Target]
    undefended_together: dict[str, Target]
    utility: Utility
