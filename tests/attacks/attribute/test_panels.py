"""The attackers by name; that each keeps its promises is in test_catalog."""

from __future__ import annotations

import sys

import pytest

from recveil.attacks.attribute.panels import ATTACKS, NEVER_HEADLINE, PANELS, available
from recveil.attacks.attribute.tasks import OneByOne
from recveil.core.errors import UsageError


def test_the_fast_panel_has_one_of_each_kind() -> None:
    """A line, a quadric, distances, cuts and a network: each sees something that another does not."""
    assert PANELS["fast"] == ("logistic", "qda", "knn", "trees", "mlp")
    assert set(ATTACKS) >= {name for members in PANELS.values() for name in members}


@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_the_device_is_handed_on(name: str) -> None:
    assert ATTACKS[name]("cpu").device == "cpu"
    with pytest.raises(UsageError, match="No device is called 'gpu7'"):
        ATTACKS[name]("gpu7").guess(None, None, 2, [], rng=None)


def test_the_full_panel_is_the_list_of_the_evaluation() -> None:
    blind, gauss = ("majority", "random"), ("lda", "qda", "naive-bayes")
    cuts = ("tree", "forest", "adaboost", "boosting", "xgboost")
    layers = ("mlp-1", "mlp-2", "mlp-3", "mlp-4")
    wanted = {*blind, "logistic", *gauss, "knn", "svm-linear", "svm-rbf", *cuts, *layers}
    assert set(PANELS["full"]) == wanted
    assert [ATTACKS[name]("cpu").hidden for name in layers] == [(), (100,), (100, 64), (100, 64, 32)]
    assert set(blind) == NEVER_HEADLINE


def test_only_the_papers_attackers_are_run_raw() -> None:
    raw = {n for n, a in ATTACKS.items() if isinstance(a(None), OneByOne) and not a(None).standardize}
    assert raw == {*PANELS["paper-raid"], *PANELS["paper-attrcloak"]}
    assert len(PANELS["paper-raid"]) == 5
    assert len(PANELS["paper-attrcloak"]) == 9


def test_without_xgboost_the_other_attackers_are_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    for members in PANELS.values():
        assert available(members) == tuple(m for m in members if "xgboost" not in m)
    assert available(["xgboost"]) == ()
    monkeypatch.undo()
    pytest.importorskip("xgboost")
    assert available(PANELS["full"]) == PANELS["full"]
