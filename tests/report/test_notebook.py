"""Results in a notebook: a frame that keeps its styles to itself, and figures as charts."""

from __future__ import annotations

import html
import re

import pytest

from documents import *  # noqa: F403
from recveil.core.errors import UsageError
from recveil.core.results import AuditResult, CloakResult, MembershipResult
from recveil.report.notebook import frame_page, list_figures


def test_the_page_is_framed_without_scripts_and_reads_back() -> None:
    page = '<html><style>body { color: red }</style><p title="a&b">x</p></html>'
    frame = frame_page(page)
    assert re.match(r"<iframe sandbox ", frame)
    assert "<style" not in frame
    assert html.unescape(frame.split('srcdoc="')[1].split('"></iframe>')[0]) == page


@pytest.mark.thorough
def test_a_result_shows_its_report(audit_result: AuditResult) -> None:
    assert "gender" in audit_result._repr_html_()
    assert audit_result._repr_html_().startswith("<iframe sandbox")


def test_figures_are_altair_charts_with_legends(full_result: CloakResult, membership_result: MembershipResult) -> None:
    altair = pytest.importorskip("altair")
    charts = [
        full_result.plot_attacks("gender"),
        full_result.plot_confusion(),
        full_result.plot_leaks(),
        full_result.plot_frontier(),
        membership_result.plot_roc(),
    ]
    for chart in charts:
        assert isinstance(chart, altair.TopLevelMixin)
        assert '"legend": null' not in chart.to_json()
        assert chart.to_dict()["title"]
    assert set(list_figures(full_result)) >= {"gender.advantage", "frontier"}


def test_a_figure_that_was_not_measured_is_refused(audit_result: AuditResult, cloak_result: CloakResult) -> None:
    with pytest.raises(UsageError, match="gendr"):
        audit_result.plot_attacks("gendr")
    bare = cloak_result.model_copy(update={"frontier": None})
    with pytest.raises(UsageError, match="no figure 'frontier'"):
        bare.plot_frontier()
