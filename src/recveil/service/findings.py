"""Findings of a result for lists of jobs: verdict and advantage of each attribute, and how far users were moved."""

from __future__ import annotations

from typing import Any

from recveil.core.results import AuditResult, CloakResult
from recveil.service.documents import Finding

__all__ = ["read_findings"]


def read_findings(content: Any) -> tuple[dict[str, Finding], float | None]:
    """Return the findings in a result document, and the displacement of a cloak.

    Raises:
        ValueError: it is no result document.
    """
    is_cloak = isinstance(content, dict) and content.get("command") == "cloak"
    result = (CloakResult if is_cloak else AuditResult).model_validate(content)
    before = result.before if isinstance(result, CloakResult) else {}
    findings = {
        name: Finding(
            verdict=target.verdict,
            advantage=target.headline.advantage,
            before=before[name].headline.advantage if name in before else None,
        )
        for name, target in result.targets.items()
    }
    return findings, result.defense.displacement if isinstance(result, CloakResult) else None
