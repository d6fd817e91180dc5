"""The rule by which a platform serves its members and its non-members."""

from __future__ import annotations

from dataclasses import dataclass

from recveil.core.errors import UsageError, unknown_name

__all__ = ["ServingPolicy"]

NONMEMBER_SERVING = ("fold-in", "popular", "fold-in-all")
SEEN_ITEM_RULES = ("excluded", "kept", "paper")


@dataclass(frozen=True)
class ServingPolicy:
    """How lists are served.

    Args:
        nonmembers: how non-members are served: `"fold-in"` (by the model) or `"popular"` (the most popular items).
            Members are served by the model, from the vectors of its training. With `"fold-in-all"` members are folded
            in as well, so that nothing but the items depends on who is a member.
        seen: whether lists omit the items of the user's history: `"excluded"` or `"kept"` for all users, or `"paper"`,
            which omits them for non-members only. That is the flaw of published benchmarks, there to show its effect.
        k: items in a list.
    """

    nonmembers: str = "fold-in"
    seen: str = "excluded"
    k: int = 100

    def __post_init__(self) -> None:
        if self.nonmembers not in NONMEMBER_SERVING:
            raise unknown_name("way to serve non-members", self.nonmembers, NONMEMBER_SERVING)
        if self.seen not in SEEN_ITEM_RULES:
            raise unknown_name("rule for seen items", self.seen, SEEN_ITEM_RULES)
        if self.k < 1:
            raise UsageError(f"`k` is {self.k}. A list needs at least one place.")

    @property
    def folds_in_nonmembers(self) -> bool:
        """Whether non-members get lists of the model."""
        return self.nonmembers != "popular"

    @property
    def folds_in_members(self) -> bool:
        """Whether members are served like users that the model was not trained on."""
        return self.nonmembers == "fold-in-all"

    @property
    def is_same_for_all(self) -> bool:
        """Whether members and non-members are served by the same rule, as the guarantee of a private model asks."""
        return self.folds_in_nonmembers and self.hides_seen_items(member=True) == self.hides_seen_items(member=False)

    def hides_seen_items(self, *, member: bool) -> bool:
        """Return whether lists of this class omit the items of the history."""
        return self.seen == "excluded" or (self.seen == "paper" and not member)
