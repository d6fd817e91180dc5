import json
import shlex

import numpy as np
import pytest

from recveil.core.errors import UsageError
from recveil.metrics.ranking import Ranks
from recveil.studies.rank_codec import pack_ranks
from recveil.studies.runs import Outcome
from recveil.studies.search_spaces import SPACES
from recveil.studies.tuning import SettingTrial, Tuning, choose_trial, propose_settings, tune

NOISE = Tuning("demo", "bprmf", "noise", "gender", budget=3.0, trials=6, batch=3, panel="logistic")


class Pretend:
    """An engine that works out nothing: more noise hides more and costs more."""

    name = "pretend"

    def __init__(self, stop_after: int = 10**6, broken: float | None = None) -> None:
        self.done, self.stop_after, self.broken = [], stop_after, broken

    def run(self, work, cells, *, go_on):
        for cell in cells:
            if len(self.done) == self.stop_after:
                raise KeyboardInterrupt
            scale = cell.at["defense"]["options"].get("scale", 1.0) if cell.at["defense"]["name"] != "none" else 0.0
            self.done.append((cell.kind, scale))
            if self.broken is not None and scale > self.broken:
                yield cell, Outcome(failure={"cell": cell.to_dict(), "error": "broken", "foreseen": True})
            else:
                yield cell, Outcome(json.loads(json.dumps(self.content(cell, scale))), {"seconds": {}})

    def content(self, cell, scale):
        level, loss = 0.6 / (1 + scale), 4 * scale
        estimate = {"value": level, "low": level, "high": level, "n": 100}
        rows = [{"attack": "headline", "metric": "advantage", "target": "gender", "estimate": estimate}]
        rows.append(
            {"attack": "", "metric": "ndcg_change@10", "target": "gender", "estimate": {**estimate, "value": -loss}}
        )
        users = np.arange(200)
        ranks = pack_ranks(Ranks(users, users, np.where(users < 2 * (50 - loss), 0, 90), np.zeros(200, dtype=int)))
        base = pack_ranks(Ranks(users, users, np.where(users < 100, 0, 90), np.zeros(200, dtype=int)))
        told = {"gender": {"folds": [level, level + 0.01, level - 0.01], "n": 100, "chance": 0.5}}
        details = {"ranks": ranks, "base": base, "test_share": 0.25, "targets": told, "two_releases": {}}
        return {"cell": cell.to_dict(), "records": rows, "details": details}


def test_a_search_is_chosen_audited_and_can_be_used(tmp_path) -> None:
    engine = Pretend()
    found = tune(NOISE, tmp_path / "t", engine)
    assert len(found["trials"]) == 6 + 2  # and the defaults, and no defense
    assert [kind for kind, _ in engine.done][-2:] == ["attribute", "attribute"]
    within = [t for t in found["trials"] if t["defended"] and t["loss"] <= 3.0]
    assert found["chosen"]["advantage"] == min(t["advantage"] for t in within)
    costs = [t["loss"] for t in found["frontier"]]
    assert costs == sorted(costs, reverse=True)
    assert found["audit"]["errors"] == []
    assert found["audit"]["lines"]["noise"]["ndcg_change@10"]["value"] == pytest.approx(
        -2 * found["chosen"]["loss"], abs=2
    )
    assert "use 'noise'" in found["audit"]["advice"][0] or "the best is 'noise'" in found["audit"]["advice"][0]
    words = shlex.split(found["use"])
    assert words[:2] == ["recveil", "train"]
    assert words[words.index("--defense-option") + 1] == f"scale={found['chosen']['options']['scale']}"


def test_a_search_that_was_stopped_asks_what_it_would_have_asked(tmp_path) -> None:
    whole = tune(NOISE, tmp_path / "whole", Pretend())
    for n in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            tune(NOISE, tmp_path / "parts", Pretend(stop_after=n))
    last = Pretend()
    assert tune(NOISE, tmp_path / "parts", last) == whole
    assert len(last.done) == 8 + 2 - 6  # six trials were there already


def test_another_budget_needs_no_new_trial(tmp_path) -> None:
    first = tune(NOISE, tmp_path / "t", Pretend())
    engine = Pretend()
    second = tune(Tuning(**{**NOISE.__dict__, "budget": 1000.0}), tmp_path / "t", engine)
    assert {kind for kind, _ in engine.done} <= {"attribute"}
    assert second["chosen"]["advantage"] < first["chosen"]["advantage"]


def test_a_budget_that_nothing_meets_chooses_nothing(tmp_path) -> None:
    found = tune(Tuning(**{**NOISE.__dict__, "budget": 0.0}), tmp_path / "t", Pretend())
    assert (found["chosen"], found["audit"], found["use"]) == (None, None, None)


def test_settings_that_fail_are_counted_and_the_search_goes_on(tmp_path) -> None:
    found = tune(NOISE, tmp_path / "t", Pretend(broken=0.5))
    assert found["failed"] > 0
    assert found["failed"] + len(found["trials"]) == 8
    assert all(t["options"].get("scale", 0.0) <= 0.5 for t in found["trials"])


def test_proposals_depend_on_what_is_known_and_on_nothing_else() -> None:
    space = SPACES["raid"]
    first = propose_settings(space, [], 4, 0)
    assert first == propose_settings(space, [], 4, 0)
    assert first != propose_settings(space, [], 4, 1)
    told = [(options, SettingTrial(options, 0.1 * i, float(i))) for i, options in enumerate(first)]
    assert propose_settings(space, told, 2, 0) != first[:2]
    for options in first:
        assert 0.003 <= options["eta"] <= 0.3
        assert options["xi"] in range(1, 9)
        assert options["eta"] == float(f"{options['eta']:.4g}")


def test_of_equally_private_settings_the_cheapest_is_chosen() -> None:
    trials = [
        SettingTrial({"a": 1}, 0.0, 2.0),
        SettingTrial({"a": 2}, 0.0, 1.0),
        SettingTrial({"a": 3}, 0.0, 9.0),
        SettingTrial({}, 0.0, 0.0, defended=False),
    ]
    chosen = choose_trial(trials, 3.0)
    assert chosen is not None
    assert chosen.options == {"a": 2}


def test_a_wrong_name_or_number_is_said_before_anything_runs(tmp_path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'noise'"):
        Tuning("demo", "bprmf", "noize", "gender")
    with pytest.raises(UsageError, match="trials and batch"):
        Tuning("demo", "bprmf", "noise", "gender", trials=0)
    with pytest.raises(UsageError, match="No attribute in demo is called 'gendr'"):
        tune(Tuning("demo", "bprmf", "noise", "gendr"), tmp_path / "t", Pretend())
    assert not (tmp_path / "t").exists()
