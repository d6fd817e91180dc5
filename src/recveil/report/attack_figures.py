"""Figures of the attacks on one attribute: accuracy, advantage and confusion of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recveil.core.result_parts import ClassTarget
from recveil.core.types import Estimate
from recveil.report.figures import HeatPlot, HeatSquare, IntervalPoint, Plot, build_dot_plot, make_point
from recveil.report.formatting import finite_or_none, format_text, select_hidden_classes

__all__ = ["describe_attacks"]


def describe_attacks(name: str, releases: Mapping[str, ClassTarget]) -> list[Plot]:
    """Describe the figures of one attribute; `releases` is keyed by "before" and "after", or by "" alone."""
    targets = list(releases.values())
    best_possible = next((t.best_possible for t in targets if t.best_possible is not None), None)
    accuracy = [(release, a, r.balanced_accuracy) for release, t in releases.items() for a, r in t.attacks.items()]
    advantage = [(release, a, r.advantage) for release, t in releases.items() for a, r in t.attacks.items()]
    return [
        *build_dot_plot(
            f"{name}.accuracy",
            f"Accuracy of each attacker ({name})",
            _make_points(accuracy),
            axis="Balanced accuracy",
            lines={"chance": targets[0].chance, "best possible": best_possible},
            caption="Balanced accuracy on users that the attacker did not train on, with its 95 % interval.",
        ),
        *build_dot_plot(
            f"{name}.advantage",
            f"Advantage of each attacker ({name})",
            _make_points(advantage),
            axis="Advantage (0 = guessing, 1 = certain)",
            lines={"margin": targets[0].margin},
            caption="Two-sided: an attacker who is reliably wrong has an advantage too. Bars are 95 % intervals.",
        ),
        *(plot for release, target in releases.items() for plot in _describe_confusion(name, release, target)),
    ]


def _make_points(rows: list[tuple[str, str, Estimate]]) -> list[IntervalPoint]:
    return [point for release, attack, estimate in rows for point in make_point(format_text(attack), release, estimate)]


def _describe_confusion(name: str, release: str, target: ClassTarget) -> list[HeatPlot]:
    """Describe which class the headline attack takes each class for, without rows of too few users."""
    squares = list(_list_squares(target))
    if not squares:
        return []
    return [
        HeatPlot(
            id=".".join(part for part in (name, "confusion", release) if part),
            title=f"Guessed against true class ({name}{f', {release}' if release else ''})",
            caption="Rows: true class. Columns: guess of the headline attack. Each row adds up to 100 %; a strong "
            "diagonal is a leak.",
            labels=[format_text(label) for label in target.labels],
            squares=squares,
        )
    ]


def _list_squares(target: ClassTarget) -> Iterator[HeatSquare]:
    hidden = select_hidden_classes(target.counts)
    for truth, row in zip(target.labels, target.confusion, strict=False):
        for guess, value in zip(target.labels, row, strict=False):
            share = finite_or_none(value)
            if share is not None and truth not in hidden:
                yield HeatSquare(format_text(truth), format_text(guess), share, f"{100 * share:.0f} %")
