"""What is said beside a defended table: classes that were made one, columns and classes too poor to work with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from recveil.core.types import Attribute, FloatArray
from recveil.data.io.attributes import without_empty_classes
from recveil.data.io.user_tables import require_classes
from recveil.defenses.embeddings.attrcloak import with_rest

__all__ = ["UNKNOWN_USERS", "WENT_ON", "notes_on", "small_classes_as_one"]

REST = "rest"

BY_COVARIANCE = ("attrcloak", "attrcloak-dd", "attrcloak-df", "gaussian", "sliced")
"""Methods that make the covariances of the classes equal."""

UNKNOWN_USERS = {
    "gaussian": "went through the label-free map",
    "leace": "went through the same map as all others, which needs no label",
    "noise": "got noise like all others",
    "sliced": "went through the label-free map",
    **dict.fromkeys(("attrcloak", "attrcloak-dd", "attrcloak-df", "d2d", "u2u"), "stay where they are"),
    **dict.fromkeys(("adversarial", "d2d-int", "raid-paper", "rap", "u2u-int"), "take no penalty"),
    "raid": "take no penalty, and go through the label-free map at the end",
    "blurme": "keep their profiles as they are",
    "ldp": "are treated like all others",
    "retrain": "are treated like all others, or left alone where the most telling interactions go",
}
"""What becomes of users whose attribute is unknown."""

WENT_ON = {
    False: "Going on with the defense was not seen to make the validation items rank clearly better. Released is the "
    "model as it was before, with the map at the end: the same as `sliced` after training.",
    True: "Going on with the defense made the validation items rank clearly better, and was kept.",
}
"""What became of a defense that waits until the model has been trained."""


def small_classes_as_one(targets: list[Attribute]) -> tuple[list[Attribute], list[str]]:
    """The targets with classes of one user put into one class, the rest, and a sentence on each where that was done.

    Nobody can be hidden among the likes of oneself where there are none. With the rest in it there must still be two
    classes.
    """
    merged = [_merged(target) for target in targets]
    return [target for target, _ in merged], [note for _, notes in merged for note in notes]


def notes_on(x: FloatArray, targets: list[Attribute], method: str) -> list[str]:
    """What whoever reads the numbers of this defense should know of the table."""
    notes, d = [], x.shape[1]
    constant = int((x.min(0) == x.max(0)).sum())
    if constant:
        notes.append(f"{constant} of {d} columns are the same for all users and stay as they are.")
    for target in targets:
        unknown = int((~target.known).sum())
        if unknown:
            fate = UNKNOWN_USERS.get(method, "were not learned from")
            notes.append(f"{unknown:,} users with unknown {target.name} {fate}.")
        few = int((target.counts <= d).sum())
        if few and method in BY_COVARIANCE:
            notes.append(
                f"{target.name}: {few} of {len(target.labels)} classes have no more users than the vectors have "
                f"dimensions ({d}). Their covariances were regularized, and become equal only roughly."
            )
    return notes


def _merged(target: Attribute) -> tuple[Attribute, list[str]]:
    require_classes(target, minimum=1)
    codes, held = with_rest(target.codes)
    if not held:
        return target, []
    called = REST if REST not in target.labels else f"{REST} of {target.name}"
    labels = tuple(called if k == min(held) else label for k, label in enumerate(target.labels))
    rest = without_empty_classes(replace(target, codes=codes, labels=labels))
    if len(rest.labels) < 2:
        require_classes(target)
    names = ", ".join(f"'{target.labels[k]}'" for k in held)
    size = int(np.isin(target.codes, held).sum())
    note = (
        f"{target.name}: a class of one user cannot be protected alone. {names} were made one class, '{called}', of "
        f"{size} users, for the defense and for the audits."
    )
    return rest, [note]
