"""Panels are what the traits say; that each attack keeps its promises is in the contract tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from recveil.attacks.attribute import ATTRIBUTE_ATTACKS
from recveil.attacks.attribute.classifiers import BaggedAttack, ClassifierAttack
from recveil.attacks.attribute.panels import (
    is_blind,
    make_attack,
    make_panel,
    missing_members,
    panel_members,
    panel_names,
    parse_attackers,
)
from recveil.core.errors import UsageError

MLPS = ("mlp-1", "mlp-2", "mlp-3", "mlp-4")


def test_the_fast_panel_has_one_of_each_kind() -> None:
    """A line, a quadric, distances, cuts and a network: each finds something that another does not."""
    assert panel_members("fast") == ("logistic", "qda", "knn", "trees", "mlp")


def test_the_full_panel_is_the_list_of_the_evaluation_in_its_order() -> None:
    """The order breaks ties between attackers, so it decides numbers."""
    gauss_and_margins = ("lda", "qda", "naive-bayes", "knn", "svm-linear", "svm-rbf")
    cuts = ("tree", "forest", "adaboost", "boosting", "xgboost")
    learned = ("logistic", *gauss_and_margins, "kernel-ridge", *cuts, *MLPS, "ensemble")
    assert panel_members("full") == ("majority", "random", *learned)
    assert [name for name in panel_members("full") if is_blind(name)] == ["majority", "random"]
    assert [make_attack(name).hidden for name in MLPS] == [(), (100,), (100, 64), (100, 64, 32)]  # type: ignore[attr-defined]


def test_the_papers_attackers_alone_are_run_raw() -> None:
    made = {name: make_attack(name) for name in ATTRIBUTE_ATTACKS}
    raw = {name for name, attack in made.items() if isinstance(attack, ClassifierAttack) and not attack.standardize}
    assert raw == {*panel_members("paper-raid"), *panel_members("paper-attrcloak")}
    assert (len(panel_members("paper-raid")), len(panel_members("paper-attrcloak"))) == (5, 9)
    assert [name for name, attack in made.items() if isinstance(attack, BaggedAttack)] == ["forest"]


@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_the_device_is_passed_on(name: str) -> None:
    assert make_attack(name, "cpu").device == "cpu"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="No device is called 'gpu7'"):
        make_attack(name, "gpu7").guess(None, None, 2, [], rng=None)  # type: ignore[arg-type]


def test_without_xgboost_the_other_attackers_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    for panel in panel_names():
        members = panel_members(panel)
        assert missing_members(panel) == tuple(name for name in members if "xgboost" in name)
        assert list(make_panel(panel)) == [name for name in members if "xgboost" not in name]


def test_attackers_are_parsed_from_a_panel_or_from_names() -> None:
    assert list(parse_attackers("fast")) == list(panel_members("fast"))
    assert list(parse_attackers("qda, logistic")) == ["qda", "logistic"]
    with pytest.raises(UsageError, match="'fas'. Did you mean 'fast'"):
        parse_attackers("fas")
    with pytest.raises(UsageError, match="'logistc'. Did you mean 'logistic'"):
        parse_attackers("qda,logistc")
    with pytest.raises(UsageError, match="No panel is called 'fsat'. Did you mean 'fast'"):
        panel_members("fsat")


def test_listing_panels_imports_no_attack() -> None:
    code = (
        "import sys; from recveil.attacks.attribute.panels import panel_members, panel_names\n"
        "print([panel_members(p) for p in panel_names()], sys.modules.keys() & {'torch', 'sklearn'})"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "logistic" in printed
    assert printed.strip().endswith("set()")
