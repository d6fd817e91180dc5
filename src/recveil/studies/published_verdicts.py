"""The verdict on a published number: reproduced, artifact, setting, or not obtainable, each with one sentence.

A number is reproduced by its level, or, where a defense is ranked and the levels differ, by its change against the
undefended model of the same paper.
"""

from __future__ import annotations

from dataclasses import dataclass

from recveil.core.types import Estimate
from recveil.studies.plans import Plan, Published

__all__ = [
    "ARTIFACT",
    "COUNTED_VERDICTS",
    "MAX_CHANGE_GAP",
    "MAX_RANKING_GAP_SHARE",
    "MAX_SCORE_GAP",
    "NOT_OBTAINABLE",
    "NOT_RUN",
    "OUR_FIELDS",
    "REPEATED",
    "REPRODUCED",
    "SETTING",
    "VERDICTS",
    "RankingChange",
    "explain_verdict",
    "is_repeated",
    "judge_number",
]

REPRODUCED, ARTIFACT, SETTING, NOT_OBTAINABLE = "reproduced", "artifact", "setting", "not obtainable"
NOT_RUN, REPEATED = "not run", "repeated"
COUNTED_VERDICTS = (REPRODUCED, ARTIFACT, SETTING, NOT_OBTAINABLE, NOT_RUN)
VERDICTS = (*COUNTED_VERDICTS, REPEATED)

MAX_SCORE_GAP, MAX_RANKING_GAP_SHARE, MAX_CHANGE_GAP = 0.03, 0.10, 0.05
"""How near an attack score, a ranking measure, and a relative change of one must come."""

MAX_REPEAT_GAP = 0.01
"""Distance up to which an F1 repeats the balanced accuracy beside it."""

OUR_FIELDS = frozenset({"ours", "undefended", "note", "calibrated", "artifact", "setting", "unavailable"})
"""What a plan says of a printed number beside where the paper prints it."""

OWN_SETTINGS = "this table was run with our own settings; the paper's profile was not tried"
PROFILE_TRIED = "the paper's profile was tried, and what the paper leaves open (optimizer, batches, strengths) differs"
OTHER_SECONDS = "another machine"
CALIBRATED = "the paper states no strength, and ours was chosen by this number"


@dataclass(frozen=True)
class RankingChange:
    """The relative change of a ranking measure by a defense, in the paper and here."""

    paper: float
    ours: float

    @property
    def is_alike(self) -> bool:
        """Whether both changes are about the same."""
        return abs(self.paper - self.ours) <= MAX_CHANGE_GAP

    def describe(self) -> str:
        """Write both changes in per cent."""
        return (
            f"the change against the undefended model is {100 * self.paper:+.1f} % there, {100 * self.ours:+.1f} % here"
        )


def judge_number(published: Published, ours: Estimate | None, change: RankingChange | None) -> str:
    """Judge a published number by the rule that the page prints.

    Args:
        published: the number, with the artifact or setting that its plan names.
        ours: our estimate; None where nothing was run.
        change: the relative changes, for a ranking measure of a defended model.
    """
    if published.unavailable:
        return NOT_OBTAINABLE
    if published.calibrated and ours is not None:
        return SETTING
    if ours is not None and (_is_near(published, ours) or (change is not None and change.is_alike)):
        return REPRODUCED
    if published.artifact:
        return ARTIFACT
    return NOT_RUN if ours is None else SETTING


def explain_verdict(verdict: str, published: Published, plan: Plan, change: RankingChange | None) -> str:
    """Write the one sentence that goes with a verdict."""
    if verdict == NOT_OBTAINABLE:
        return published.unavailable
    if verdict == REPRODUCED:
        return change.describe() if change is not None and change.is_alike else published.note
    if verdict == ARTIFACT:
        return published.artifact
    if verdict != SETTING:
        return ""
    if published.calibrated:
        return CALIBRATED
    if published.metric == "seconds":
        return published.setting or OTHER_SECONDS
    fallback = PROFILE_TRIED if plan.settings.profile else OWN_SETTINGS
    sentence = published.setting or plan.setting or fallback
    return f"{sentence}; {change.describe()}" if change is not None else sentence


def is_repeated(published: Published, plan: Plan) -> bool:
    """Tell whether a printed F1 only repeats the balanced accuracy that is printed beside it."""
    if published.metric != "f1" or published.value is None:
        return False
    twin = published.model_copy(update={"metric": "balanced_accuracy"})
    ignored = {"value", *OUR_FIELDS}
    wanted = twin.model_dump(exclude=ignored)
    return any(
        other.value is not None
        and abs(other.value - published.value) <= MAX_REPEAT_GAP
        and other.model_dump(exclude=ignored) == wanted
        for other in plan.published
    )


def _is_near(published: Published, ours: Estimate) -> bool:
    if published.value is None or published.metric == "seconds":
        return False
    gap, is_ranking = abs(published.value - ours.value), "@" in published.metric
    is_near = gap <= MAX_RANKING_GAP_SHARE * abs(ours.value) if is_ranking else gap <= MAX_SCORE_GAP + 1e-12
    return is_near or ours.low <= published.value <= ours.high
