"""The result of a study, from its folder."""

from __future__ import annotations

from collections.abc import Sequence

from recveil.audits.membership.demonstrations import write_warning
from recveil.core.results import StudyResult
from recveil.core.study_parts import CellCounts, Failure, StudySettings
from recveil.studies.attribute_tables import build_attribute_content
from recveil.studies.membership_tables import build_membership_content
from recveil.studies.plans import Plan
from recveil.studies.pooled_seeds import pool_plan
from recveil.studies.store import Store

__all__ = ["build_study_result"]


def build_study_result(store: Store, command_line: Sequence[str] = ()) -> StudyResult:
    """Build the result of the study in this folder, as far as it was run.

    Raises:
        DataError: a file of the folder is damaged.
    """
    plan = store.read_plan()
    pooled = pool_plan(plan, [store])
    build_content = build_membership_content if plan.kind == "membership" else build_attribute_content
    wanted, done = sum(cells.wanted for cells in pooled), sum(len(cells.results) for cells in pooled)
    failed = sum(len(cells.errors) for cells in pooled)
    failures = [
        Failure(cell=", ".join(cells.at.values()), error=error)
        for cells in pooled
        for error in dict.fromkeys(cells.errors)
    ]
    return StudyResult(
        command_line=list(command_line),
        name=plan.name,
        size=plan.size,
        kind=plan.kind,
        title=plan.title,
        source=plan.source,
        about=_describe_plan(plan),
        cells=CellCounts(wanted=wanted, done=done, failed=failed, missing=wanted - done - failed),
        failures=failures,
        settings=StudySettings(**plan.settings.model_dump()),
        **vars(build_content(pooled)),
    )


def _describe_plan(plan: Plan) -> str:
    """Return what the plan says of itself; a demonstration of a mistake is said first."""
    mistake, about = plan.settings.demonstrate, " ".join(plan.about.split())
    return f"{write_warning(mistake)} {about}" if mistake else about
