"""Traits of methods: the facts that lists, workflows and searches need without importing the method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

__all__ = [
    "AttackTraits",
    "Choice",
    "DefenseTraits",
    "MembershipAttackTraits",
    "ModelTraits",
    "Range",
    "Traits",
]


@dataclass(frozen=True)
class Range:
    """Numbers between two ends that a search may try; `log` searches orders of magnitude."""

    low: float
    high: float
    log: bool = False

    @property
    def is_integer(self) -> bool:
        """Whether only whole numbers are meant."""
        return isinstance(self.low, int) and isinstance(self.high, int)


@dataclass(frozen=True)
class Choice:
    """Words that a search may try."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Traits:
    """Facts about one method.

    Args:
        name: what people type.
        builder: name of the class or function in the module that makes the method.
        summary: one line for lists; the first line of the builder's docstring if empty.
        paper: where the method comes from.
        guarantee: what is proven about it, without its limits; empty if nothing is.
        extra: optional package that it needs, by import name.
    """

    name: str
    builder: str
    summary: str = ""
    paper: str = ""
    guarantee: str = ""
    extra: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether the optional package that the method needs can be imported."""
        return not self.extra or find_spec(self.extra) is not None


@dataclass(frozen=True)
class ModelTraits(Traits):
    """Facts about a recommender.

    Args:
        dot_product: scores are products of user and item vectors.
        has_user_vectors: the model holds a vector for each user.
        is_sequential: the model learns from the order of interactions.
        factors_items: its item vectors serve outsiders who attack membership and have none.
        protects_members: it has a guarantee for its members, and is the one to recommend for that.
        user_tables: tables of equal width that a user vector puts side by side.
    """

    dot_product: bool = True
    has_user_vectors: bool = True
    is_sequential: bool = False
    factors_items: bool = False
    protects_members: bool = False
    user_tables: int = 1


@dataclass(frozen=True)
class DefenseTraits(Traits):
    """Facts about a defense.

    Args:
        place: where it acts: data, training, embeddings or lists.
        needs_labels: it needs a user's attribute when it is applied.
        streams: it can be fitted and applied to a table larger than memory.
        keeps_map: it keeps a map for later users, which can be saved.
        protects_undisclosed: users whose attribute is unknown are protected like all others.
        quadratic: its cost grows with the square of the users.
        max_dimensions: numbers of a vector up to which it ends within minutes on one processor.
        blends: partial strength is a straight line from the undefended to the defended table.
        needs_loss: it needs a differentiable loss of the recommendations.
        for_comparison: a baseline that is left out of frontiers.
        equalizes_covariances: it makes class covariances equal, which needs classes of more users than dimensions.
        displaces_least: it does no more, with the least displacement, so its price is about what hiding costs.
        numeric_targets: it can protect numbers as well as classes.
        hides_members: it hides whose data a model was trained on, not an attribute.
        undisclosed_users: what becomes of users whose attribute is unknown, as a verb phrase.
        auto_rank: place among the defenses that `auto` tries, the cheapest first; 0 is never tried.
        takes_tables: it has an option `tables`, the user tables that a model puts side by side in a vector.
        search_space: options that a search tries, with their ranges.
    """

    place: str = "embeddings"
    needs_labels: bool = True
    streams: bool = False
    keeps_map: bool = False
    protects_undisclosed: bool = False
    quadratic: bool = False
    max_dimensions: int = 4_096
    blends: bool = True
    needs_loss: bool = False
    for_comparison: bool = False
    equalizes_covariances: bool = False
    displaces_least: bool = False
    numeric_targets: bool = False
    hides_members: bool = False
    undisclosed_users: str = "were not learned from"
    auto_rank: int = 0
    takes_tables: bool = False
    search_space: Mapping[str, Range | Choice] = field(default_factory=dict)


@dataclass(frozen=True)
class AttackTraits(Traits):
    """Facts about an attribute attack.

    Args:
        panels: the attacker panels it belongs to.
        options: options that the builder is called with.
        is_blind: it never looks at the vectors, and so never speaks for a panel.
        standardize: vectors are standardized first (for scikit-learn classifiers).
        is_python_bound: it spends its time in Python, so that processes serve it better than threads.
        predicts_left_out: its classifier has `left_out_`, which replaces the inner folds.
        rank: place in its panels; on equal terms the lower rank speaks for the panel.
    """

    panels: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    is_blind: bool = False
    standardize: bool = True
    is_python_bound: bool = False
    predicts_left_out: bool = False
    rank: int = 1_000


@dataclass(frozen=True)
class MembershipAttackTraits(Traits):
    """Facts about a membership attack.

    Args:
        needs_references: it compares the target with reference models.
        needs_item_vectors: it looks at the vectors of items.
        is_default: it runs when no attacks are named.
    """

    needs_references: bool = False
    needs_item_vectors: bool = True
    is_default: bool = True
