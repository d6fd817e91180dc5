"""Notes beside a defended table: merged classes, constant columns, classes too small, undisclosed users.

A table that names its users is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from recveil.core.errors import DataError
from recveil.core.types import Attribute, FloatArray
from recveil.data.io.attributes import drop_empty_classes
from recveil.data.io.user_tables import require_classes
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.attrcloak import merge_lonely_classes

__all__ = [
    "describe_cheaper_protection",
    "describe_target_columns",
    "describe_unchecked_classes",
    "describe_undisclosed",
    "list_notes",
    "merge_small_classes",
    "refuse_rows_of_ids",
]

REST_LABEL = "rest"


def merge_small_classes(targets: Sequence[Attribute]) -> tuple[list[Attribute], list[str]]:
    """Merge classes of one user into one class, the rest; return the targets and a sentence for each merge.

    Nobody can be hidden among users of one's own class where there are none. With the rest there must still be two
    classes.
    """
    merged = [_merge_classes(target) for target in targets]
    return [target for target, _ in merged], [note for _, notes in merged for note in notes]


def list_notes(x: FloatArray, targets: Sequence[Attribute], method: str) -> list[str]:
    """List what readers of this defense's numbers should know of the table."""
    notes, d = [], x.shape[1]
    constant = int((x.min(0) == x.max(0)).sum())
    if constant:
        notes.append(f"{constant} of {d} columns are the same for all users and stay as they are.")
    for target in targets:
        undisclosed = int((~target.known).sum())
        if undisclosed:
            notes.append(describe_undisclosed(undisclosed, target.name, method))
        small = int((target.counts <= d).sum())
        if small and DEFENSES.traits(method).equalizes_covariances:
            notes.append(
                f"{target.name}: {small} of {len(target.labels)} classes have no more users than the vectors have "
                f"dimensions ({d}). Their covariances were regularized, and become equal only roughly."
            )
    return notes


def refuse_rows_of_ids(x: FloatArray) -> None:
    """Refuse a table in which every user has a column that is 0 for all others.

    Raises:
        DataError: it is such a table.
    """
    taken = x != 0
    if len(x) <= x.shape[1] and taken[:, taken.sum(0) == 1].any(1).all():
        raise DataError(
            "Every user has a column that is 0 for all others, as with one-hot ids: such a row names its user, and no "
            "class could be hidden in it. Give the vectors that a model learned."
        )


def describe_unchecked_classes(targets: Sequence[Attribute], folds: int) -> list[str]:
    """Return a sentence for each attribute with classes of which there is not a user for each fold of the check."""
    notes = []
    for target in targets:
        small = [label for label, n in zip(target.labels, target.counts, strict=True) if 0 < n < folds]
        if small:
            notes.append(
                f"{target.name}: {len(small)} of {len(target.labels)} classes have fewer than {folds} users (such as "
                f"'{small[0]}'), too few to check whether they are hidden. Merge them with other classes, or leave the "
                "attribute of these users blank."
            )
    return notes


def describe_target_columns(columns: Sequence[str], output: str, *, kept: bool) -> list[str]:
    """Return the sentence about columns of the table that hold a protected attribute, if there are any.

    Args:
        columns: the columns.
        output: name of the defended table.
        kept: whether they stay in it.
    """
    if not columns:
        return []
    names = ", ".join(f"'{name}'" for name in columns)
    if kept:
        return [f"WARNING: {output} still holds {names}, so nobody needs to attack it. Remove it before you share it."]
    return [f"{output} does not hold {names}, which the table held: anybody could read the protected classes there."]


def describe_undisclosed(count: int, attribute: str, method: str) -> str:
    """Return the sentence about users who did not disclose an attribute."""
    return f"{count:,} users with undisclosed {attribute} {DEFENSES.traits(method).undisclosed_users}."


def _merge_classes(target: Attribute) -> tuple[Attribute, list[str]]:
    require_classes(target, minimum=1)
    codes, merged = merge_lonely_classes(target.codes)
    if not merged:
        return target, []
    rest = REST_LABEL if REST_LABEL not in target.labels else f"{REST_LABEL} of {target.name}"
    labels = tuple(rest if k == min(merged) else label for k, label in enumerate(target.labels))
    result = drop_empty_classes(replace(target, codes=codes, labels=labels))
    if len(result.labels) < 2:
        require_classes(target)
    names = ", ".join(f"'{target.labels[k]}'" for k in merged)
    size = int(np.isin(target.codes, merged).sum())
    note = (
        f"{target.name}: a class of one user cannot be protected alone. {names} were made one class, '{rest}', of "
        f"{size} users, for the defense and for the audits."
    )
    return result, [note]


def describe_cheaper_protection(targets: Sequence[Attribute]) -> list[str]:
    """Say how many users who did not disclose are what a dear protection of everybody is for."""
    return [
        f"`protect` disclosed usually costs less. It would leave the {undisclosed:,} of {len(target.codes):,} users "
        f"who did not disclose {target.name} unprotected."
        for target in targets
        if (undisclosed := int((~target.known).sum()))
    ]
