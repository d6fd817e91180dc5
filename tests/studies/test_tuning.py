"""A search: proposed, stopped, resumed, chosen for a budget and audited, on an engine that computes nothing."""

import shlex
from dataclasses import replace

import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.study_parts import TuningTrial
from recveil.core.traits import Choice
from recveil.core.types import Estimate, Record
from recveil.defenses import DEFENSES
from recveil.metrics.ranking import Ranks
from recveil.studies.cell_results import AttributeDetails, CellFailure, CellResult, StoredTarget, TrialDetails
from recveil.studies.rank_codec import pack_ranks
from recveil.studies.runs import Outcome
from recveil.studies.tuning import (
    TriedSetting,
    TuningConfig,
    choose_trial,
    find_search_space,
    propose_settings,
    tune,
)

NOISE = TuningConfig("demo", "bprmf", "noise", "gender", budget=3.0, trials=6, batch=3, panel="logistic")
TUNABLE = [traits for traits in DEFENSES.all_traits() if traits.place != "lists"]


class PretendEngine:
    """An engine that computes nothing: more noise hides more and costs more."""

    name = "pretend"

    def __init__(self, stop_after: int = 10**6, max_scale: float = np.inf) -> None:
        self.done, self.stop_after, self.max_scale = [], stop_after, max_scale

    def run(self, work, cells, *, may_start):
        for cell in cells:
            if len(self.done) == self.stop_after:
                raise KeyboardInterrupt
            defense = cell.choice("defense")
            scale = 0.0 if defense.is_undefended else defense.options.get("scale", 1.0)
            self.done.append((cell.kind, scale))
            if scale > self.max_scale:
                yield cell, Outcome(failure=CellFailure(error="broken", foreseen=True))
            else:
                yield cell, Outcome(self.invent(cell, scale))

    def invent(self, cell, scale):
        level, loss = 0.6 / (1 + scale), 4 * scale
        names = ("demo", "bprmf", "noise")
        estimates = {
            "advantage": Estimate(level, level, level, 100),
            "ndcg_change@10": Estimate(-loss, -loss, -loss, 100),
        }
        attacks = {"advantage": "headline", "ndcg_change@10": ""}
        records = [Record(*names, attacks[m], "gender", 0, m, estimate) for m, estimate in estimates.items()]
        folds = [level, level + 0.01, level - 0.01]
        if cell.kind == "trial":
            return CellResult(cell, records, TrialDetails(folds={"gender": folds}, users=100))
        users = np.arange(200)
        ranks, base = (
            pack_ranks(Ranks(users, users, np.where(users < hits, 0, 90), np.zeros(200, dtype=int)))
            for hits in (2 * (50 - loss), 100)
        )
        audit = StoredTarget(folds=folds, n=100, chance=0.5)
        return CellResult(
            cell, records, AttributeDetails(ranks=ranks, base=base, test_share=0.25, targets={"gender": audit})
        )


def test_a_search_is_chosen_audited_and_can_be_used(tmp_path) -> None:
    engine = PretendEngine()
    result = tune(NOISE, tmp_path / "t", engine, command_line=["recveil", "tune"])
    assert len(result.trials) == 6 + 2  # and the defaults, and no defense
    assert [kind for kind, _ in engine.done][-2:] == ["attribute", "attribute"]
    within = [trial for trial in result.trials if trial.defended and trial.loss <= 3.0]
    assert result.chosen.advantage == min(trial.advantage for trial in within)
    costs = [trial.loss for trial in result.frontier]
    assert costs == sorted(costs, reverse=True)
    assert (result.audit.errors, result.command_line) == ([], ["recveil", "tune"])
    assert result.audit.lines["noise"].ndcg_change.value == pytest.approx(-2 * result.chosen.loss, abs=2)
    assert "'noise'" in result.audit.advice[0]
    words = shlex.split(result.use)
    assert words[:2] == ["recveil", "train"]
    assert words[words.index("--defense-option") + 1] == f"scale={result.chosen.options['scale']}"


@pytest.mark.thorough
def test_a_search_that_was_stopped_proposes_what_it_would_have_proposed(tmp_path) -> None:
    whole = tune(NOISE, tmp_path / "whole", PretendEngine())
    for n in (1, 2, 3):
        with pytest.raises(KeyboardInterrupt):
            tune(NOISE, tmp_path / "parts", PretendEngine(stop_after=n))
    last = PretendEngine()
    assert tune(NOISE, tmp_path / "parts", last) == whole
    assert len(last.done) == 8 + 2 - 6  # six trials were there already
    engine = PretendEngine()
    richer = tune(replace(NOISE, budget=1000.0), tmp_path / "parts", engine)
    assert {kind for kind, _ in engine.done} <= {"attribute"}  # another budget needs no new trial
    assert richer.chosen.advantage < whole.chosen.advantage


def test_failed_settings_are_counted_and_a_budget_that_nothing_meets_chooses_nothing(tmp_path) -> None:
    result = tune(replace(NOISE, budget=0.0), tmp_path / "t", PretendEngine(max_scale=0.5))
    assert result.n_failed > 0
    assert result.n_failed + len(result.trials) == 8
    assert all(trial.options.get("scale", 0.0) <= 0.5 for trial in result.trials)
    assert (result.chosen, result.audit, result.use) == (None, None, None)


def test_a_search_that_cannot_begin_says_why(tmp_path) -> None:
    with pytest.raises(DataError, match="could be measured. broken"):
        tune(NOISE, tmp_path, PretendEngine(max_scale=-1.0))


def test_proposals_depend_on_what_is_known_and_on_nothing_else() -> None:
    space = find_search_space("raid")
    first = propose_settings(space, [], 4, 0)
    assert first == propose_settings(space, [], 4, 0)
    assert first != propose_settings(space, [], 4, 1)
    tried = [TriedSetting(options, make_trial(options, 0.1 * i, float(i))) for i, options in enumerate(first)]
    assert propose_settings(space, tried, 2, 0) != first[:2]
    for options in first:
        assert 0.01 <= options["eta"] <= 3.0
        assert options["keep"] in ("last", "best")
        assert options["xi"] in range(1, 9)
        assert options["eta"] == float(f"{options['eta']:.4g}")


def make_trial(options, advantage, loss, *, defended=True):
    return TuningTrial(options=options, advantage=advantage, loss=loss, cell="", defended=defended)


def test_of_equally_private_settings_the_cheapest_is_chosen() -> None:
    trials = [make_trial({"a": loss}, 0.0, loss) for loss in (2.0, 1.0, 9.0)]
    undefended = make_trial({}, 0.0, 0.0, defended=False)
    assert choose_trial([*trials, undefended], 3.0).options == {"a": 1.0}


def test_mistakes_are_found_before_anything_runs(tmp_path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'noise'"):
        TuningConfig("demo", "bprmf", "noize", "gender")
    with pytest.raises(UsageError, match="No defense with options to tune is called 'popularity'"):
        TuningConfig("demo", "bprmf", "popularity", "gender")
    with pytest.raises(UsageError, match="`trials` is 0"):
        replace(NOISE, trials=0)
    with pytest.raises(UsageError, match="No attribute in demo is called 'gendr'"):
        tune(replace(NOISE, target="gendr"), tmp_path / "t", PretendEngine())
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("traits", TUNABLE, ids=lambda traits: traits.name)
def test_every_attribute_defense_can_be_tuned_and_takes_the_ends_of_its_ranges(traits) -> None:
    for option, domain in find_search_space(traits.name).items():
        for value in domain.words if isinstance(domain, Choice) else (domain.low, domain.high):
            assert getattr(DEFENSES.make(traits.name, **{option: value}), option) == value
