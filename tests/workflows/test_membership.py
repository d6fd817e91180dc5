"""From a scenario to a typed result: attacks by name, files on request, users only in the file of scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.attacks.membership.rules import RULES
from recveil.audits.membership.audit import MembershipAudit
from recveil.audits.membership.item_source import ItemSource
from recveil.audits.membership.observed_scenario import ObservedScenario
from recveil.audits.membership.platforms import ServingPolicy
from recveil.audits.membership.scenarios import MethodConfig, TrainedScenario
from recveil.core.errors import UsageError
from recveil.core.results import MembershipResult
from recveil.workflows.membership import (
    MembershipConfig,
    MembershipOutputs,
    MembershipRequest,
    _write_scores,
    run_membership,
    run_membership_on_data,
)

QUICK = MethodConfig("als", {"epochs": 1, "embedding_size": 4})
DEMO = TrainedScenario("demo", QUICK, QUICK, ServingPolicy(k=20))
RULES_ONLY = MembershipConfig(["rules"], device="cpu")


def test_attacks_are_made_by_name_with_their_options() -> None:
    config = MembershipConfig(["rules", "dlmia", "shadowfree"], {"dlmia": {"pretrain": 7}}, device="cpu")
    attacks = config.make_attacks()
    assert list(attacks) == ["dlmia", "shadowfree"]
    assert (attacks["dlmia"].pretrain, attacks["dlmia"].device) == (7, "cpu")
    defaults = MembershipConfig().attack_names
    assert defaults == [traits.name for traits in MEMBERSHIP_ATTACKS.all_traits() if traits.is_default]
    assert not {"lira", "rmia", "rrmia"} & set(defaults)


@pytest.mark.parametrize(
    ("attacks", "options", "message"),
    [
        (["dlmai"], {}, "Did you mean 'dlmia'"),
        (["dlmia"], {"dlmia": {"pretran": 1}}, "Did you mean 'pretrain'"),
        (["dlmia"], {"biased": {"epochs": 1}}, "No attack to be run is called 'biased'"),
    ],
)
def test_unknown_attacks_and_options_are_refused(attacks: list[str], options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MembershipConfig(attacks, options).make_attacks()


def test_unwritable_files_are_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for outputs in (
        MembershipOutputs(scores=tmp_path / "s.txt"),
        MembershipOutputs(report=tmp_path / "file" / "r.html"),
    ):
        with pytest.raises(UsageError):
            run_membership(DEMO, config=RULES_ONLY, outputs=outputs)


def test_files_that_are_read_are_not_written(tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("target_lists", "shadow_histories", "shadow_lists", "shadow_members")}
    for path in (tmp_path / "t.csv", tmp_path / "items.csv", *files.values()):
        path.write_text("user_id,item_id,rank\n")
    scenario = ObservedScenario(target_histories=tmp_path / "t.csv", **files)
    items = ItemSource(texts=tmp_path / "items.csv")
    for name, argument in (("t.csv", "target_histories"), ("items.csv", "item_texts")):
        with pytest.raises(UsageError, match=f"`scores_out` .* is `{argument}`"):
            run_membership(scenario, items=items, config=RULES_ONLY, outputs=MembershipOutputs(scores=tmp_path / name))


def test_ids_in_a_csv_file_of_scores_are_no_formulas(tmp_path: Path) -> None:
    users = np.array(["=1+1", "@x", "-2", "plain", "a=b"], dtype=object)
    audit = MembershipAudit({}, {"popular": np.zeros(5)}, np.arange(5), None)
    _write_scores(tmp_path / "s.csv", users, audit)
    lines = (tmp_path / "s.csv").read_text().splitlines()[1:]
    assert [line.split(",")[0].strip('"') for line in lines] == ["'=1+1", "'@x", "'-2", "plain", "a=b"]
    assert (tmp_path / "s.csv").stat().st_mode & 0o777 == 0o600
    _write_scores(tmp_path / "s.parquet", users, audit)
    assert pq.read_table(tmp_path / "s.parquet")["user_id"].to_pylist() == users.tolist()


def test_the_result_names_no_user_and_the_scores_do(tmp_path: Path) -> None:
    outputs = MembershipOutputs(out=tmp_path / "r.json", scores=tmp_path / "s.parquet")
    result = run_membership(DEMO, config=RULES_ONLY, outputs=outputs, command_line=["recveil", "membership"])
    assert set(result.attacks) == set(result.roc) == set(RULES)
    assert result.best_attack in RULES
    assert result.command_line == ["recveil", "membership"]
    scores = pq.read_table(tmp_path / "s.parquet")
    assert scores.column_names == ["user_id", *RULES, "member"]
    assert scores.num_rows == result.n_users
    assert sum(scores["member"].to_pylist()) == result.n_members
    written = MembershipResult.read_json(tmp_path / "r.json")
    assert written == result
    lengths = [len(values) for values in find_lists(written.model_dump(mode="json"))]
    assert max(lengths) < result.n_users, "a list as long as there are users is about users"


def find_lists(value: object) -> list[list[object]]:
    if isinstance(value, dict):
        return [found for part in value.values() for found in find_lists(part)]
    return [value, *(found for part in value for found in find_lists(part))] if isinstance(value, list) else []


@pytest.mark.thorough
def test_reference_models_are_trained_for_the_attacks_that_need_them() -> None:
    request = MembershipRequest(
        data="demo",
        options=QUICK.options,
        k=20,
        references=4,
        attacks=["lira", "rmia"],
        attack_options={"lira": {"level": "pair"}},
        device="cpu",
    )
    assert request.scenario.shadow == request.scenario.target == QUICK
    assert replace(request, attacks=["rules"]).scenario.references is None
    result = run_membership_on_data(request)
    assert set(result.attacks) == {*RULES, "lira", "rmia"}
    assert result.protocol.references is not None
    assert result.protocol.references.model_dump() == {"n": 4, "signal": "rank-percentile"}
    assert result.protocol.attack_options == {"lira": {"level": "pair"}}
    assert result.input.item_vectors == "none"
    assert result.attacks["lira"].threshold == 0
    with pytest.raises(UsageError, match="need a target that is trained here"):
        run_membership(DEMO, config=request)


@pytest.mark.thorough
def test_a_defense_is_compared_with_the_undefended_target() -> None:
    scenario = replace(DEMO, policy=ServingPolicy("popular", k=20), defense=MethodConfig("popularity", {"pool": 200}))
    result = run_membership(scenario, config=RULES_ONLY)
    assert result.before is not None
    assert result.static is not None
    assert result.before.attacks["popular-list"].auc.value > 0.95
    assert result.static.attacks["popular-list"].auc.high < 0.5  # its direction was learned on popular lists
    assert result.attacks["popular-list"].auc.low > 0.5  # an attacker who adapts turns it round
    assert result.utility is not None
    assert result.utility.non_member_change is not None
    assert result.utility.non_member_change.high < 0


@pytest.mark.thorough
def test_inductive_attacks_score_the_other_half() -> None:
    all_users = run_membership(DEMO, config=RULES_ONLY)
    half = run_membership(DEMO, config=replace(RULES_ONLY, inductive=True))
    assert half.n_users == all_users.n_users - all_users.n_users // 2
    assert half.protocol.kind == "inductive"


def test_a_target_with_a_guarantee_states_it_beside_what_an_attack_proves() -> None:
    request = MembershipRequest(
        data="demo",
        model="dp-cov",
        options={"epsilon": 300.0, "noise_seed": 0},
        attacks=["lira"],
        references=4,
        k=5,
        device="cpu",
    )
    result = run_membership_on_data(request)
    assert result.privacy is not None
    assert result.empirical_epsilon is not None
    assert result.privacy.epsilon == result.empirical_epsilon.guarantee == 300.0
    assert 0 <= result.empirical_epsilon.lower_bound <= 300.0
    assert result.attacks["lira"].auc.low <= result.privacy.max_auc
