"""From a game to a document: attacks by name, outputs, scores on request and only then."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from recveil.attacks.membership.rules import RULES
from recveil.audits.gates import Checks
from recveil.audits.membership.platforms import ServingPolicy
from recveil.audits.membership.references import ReferenceModels
from recveil.audits.membership.scenarios import ItemSource, ModelConfig, TrainedScenario
from recveil.core.errors import UsageError
from recveil.defenses.lists.popularity import Popularity
from recveil.workflows.membership import MembershipConfig, MembershipOutputs, run_membership

QUICK = ModelConfig("als", {"epochs": 1, "embedding_size": 4})
DEMO = TrainedScenario("demo", QUICK, QUICK, ServingPolicy(k=20))


def test_attacks_are_made_by_name_with_their_options() -> None:
    made = MembershipConfig(["rules", "dlmia", "shadowfree"], {"dlmia.pretrain": 7}, device="cpu").made()
    assert list(made) == ["dlmia", "shadowfree"]
    assert (made["dlmia"].pretrain, made["dlmia"].device) == (7, "cpu")


@pytest.mark.parametrize(
    ("attacks", "options", "message"),
    [
        (["dlmai"], {}, "Did you mean 'dlmia'"),
        (["dlmia"], {"dlmia.pretran": 1}, "Did you mean 'pretrain'"),
        (["dlmia"], {"biased.epochs": 1}, "No attack that was asked for is called 'biased'"),
        (["dlmia"], {"pretrain": 1}, "Write attack.name=value"),
    ],
)
def test_a_slip_of_the_pen_is_named(attacks: list[str], options: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MembershipConfig(attacks, options).made()


def test_what_cannot_be_written_is_found_before_the_work(tmp_path: Path) -> None:
    for outputs in (MembershipOutputs(scores=tmp_path / "s.txt"), MembershipOutputs(report=tmp_path / "no" / "r.html")):
        with pytest.raises(UsageError):
            run_membership(DEMO, ItemSource(), MembershipConfig(["rules"]), outputs=outputs)
    with pytest.raises(UsageError, match="No audited target is called 'dlmia'"):
        run_membership(DEMO, ItemSource(), MembershipConfig(["rules"]), checks=Checks.of(["dlmia.auc.low > 0.6"], None))
    assert list(tmp_path.iterdir()) == []


def test_the_document_names_nobody_and_the_scores_do(tmp_path: Path) -> None:
    outputs = MembershipOutputs(out=tmp_path / "d.json", scores=tmp_path / "s.parquet")
    document = run_membership(DEMO, ItemSource(), MembershipConfig(["rules"], device="cpu"), outputs=outputs)
    assert set(document["attacks"]) == set(document["roc"]) == set(RULES)
    assert document["verdict"]["best"] in RULES
    scores = pq.read_table(tmp_path / "s.parquet")
    assert scores.column_names == ["user_id", *RULES, "member"]
    assert scores.num_rows == document["n"]
    assert sum(scores["member"].to_pylist()) == document["members"]
    written = json.loads((tmp_path / "d.json").read_text())
    assert written["attacks"] == document["attacks"]
    lengths = [len(v) for v in _lists(written)]
    assert max(lengths) < document["n"], "a list as long as there are users is about users"


def _lists(value: object) -> list[list[object]]:
    if isinstance(value, dict):
        return [found for part in value.values() for found in _lists(part)]
    return [value, *(found for part in value for found in _lists(part))] if isinstance(value, list) else []


def test_reference_models_are_trained_for_the_attacks_that_need_them() -> None:
    scene = replace(DEMO, references=ReferenceModels(4))
    document = run_membership(
        scene, ItemSource(), MembershipConfig(["lira", "rmia"], {"lira.level": "pair"}, device="cpu")
    )
    assert set(document["attacks"]) == {*RULES, "lira", "rmia"}
    assert document["protocol"]["references"] == {"n": 4, "signal": "rank-percentile"}
    assert document["input"]["item_vectors"] == "none"
    assert document["attacks"]["lira"]["threshold"] == 0
    with pytest.raises(UsageError, match="need a target that is trained here"):
        run_membership(DEMO, ItemSource(), MembershipConfig(["lira"], device="cpu"))


def test_what_reference_models_cannot_be_compared_with_is_said() -> None:
    with pytest.raises(UsageError, match="Serve by fold-in"):
        replace(DEMO, references=ReferenceModels(4), policy=ServingPolicy("popular"))
    with pytest.raises(UsageError, match="it cannot help against them"):
        replace(DEMO, references=ReferenceModels(4), defense=Popularity(50))


def test_inductive_attacks_are_judged_on_the_other_half(tmp_path: Path) -> None:
    whole = run_membership(DEMO, ItemSource(), MembershipConfig(["rules"], device="cpu"))
    half = run_membership(DEMO, ItemSource(), MembershipConfig(["rules"], inductive=True, device="cpu"))
    assert half["n"] == whole["n"] - whole["n"] // 2
    assert half["protocol"]["kind"] == "inductive"
