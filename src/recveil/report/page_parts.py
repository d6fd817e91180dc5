"""Parts that all pages share: badges, cards, and the top that answers the reader in twenty seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from recveil.core.result_parts import Verdict

__all__ = ["BADGES", "Badge", "PageTop", "Recommendation", "Term", "VerdictCard"]

Action = Literal["release", "withhold", "measure", "audit"]


@dataclass(frozen=True)
class Term:
    """A name and what is said of it; a command is set as code."""

    term: str
    text: str
    is_code: bool = False


@dataclass(frozen=True)
class Badge:
    """A verdict as a word, a sign and a color; `kind` is its class in the style sheet."""

    kind: str
    word: str
    icon: str


BADGES = {
    Verdict.LEAK: Badge("leak", "Leak", "!"),
    Verdict.EXPLAINED: Badge("inconclusive", "Explained by the serving rule", "!"),
    Verdict.NONE: Badge("none", "No leak found", "✓"),
    Verdict.INCONCLUSIVE: Badge("inconclusive", "Inconclusive", "?"),
    Verdict.UNKNOWN: Badge("inconclusive", "Scores only", "?"),
}


@dataclass(frozen=True)
class VerdictCard:
    """One answer: is it safe, and how bad is it in plain numbers."""

    title: str
    badge: Badge
    statement: str
    evidence: str
    before: Badge | None = None
    before_statement: str = ""
    is_unprotected: bool = False


@dataclass(frozen=True)
class Recommendation:
    """The one next step: what to do, why, what it costs, and the command where there is one."""

    action: Action
    headline: str
    reasons: list[str] = field(default_factory=list)
    cost: str = ""
    command: str = ""


@dataclass(frozen=True)
class PageTop:
    """The first screen: the release, verdicts, next step, measured users, and what is not covered."""

    eyebrow: str
    title: str
    released: str
    cards: list[VerdictCard]
    recommendation: Recommendation
    measured: list[str]
    not_covered: list[str]
    warnings: list[str]
    version: str
