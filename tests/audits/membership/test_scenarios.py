"""A model to be trained becomes a game with its facts; a defense adds two games to compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from recveil.audits.membership.item_source import ItemSource
from recveil.audits.membership.platforms import ServingPolicy
from recveil.audits.membership.references import ReferenceModels
from recveil.audits.membership.scenarios import MethodConfig, PreparedScenario, TrainedScenario
from recveil.core.errors import UsageError
from recveil.data.synthetic import make_world

QUICK = MethodConfig("als", {"epochs": 2, "embedding_size": 8})


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> TrainedScenario:
    world = make_world(n_users=240, n_items=120, n_interactions=7_000, leaks={}, rng=np.random.default_rng(0)).dataset
    path = tmp_path_factory.mktemp("world") / "small.csv"
    table = {"user_id": world.user + 1000, "item_id": world.item + 5000, "timestamp": world.time}
    pyarrow.csv.write_csv(pa.table(table), path)
    return TrainedScenario(str(path), QUICK, QUICK, ServingPolicy(k=10), 10)


def build(scenario: TrainedScenario, *, seed: int = 0, items: ItemSource | None = None) -> PreparedScenario:
    with_vectors = items is not None
    return scenario.build(items or ItemSource(), with_item_vectors=with_vectors, seed=seed, device="cpu")


def test_a_scenario_becomes_a_game_with_its_facts(scenario: TrainedScenario) -> None:
    prepared = build(scenario)
    game = prepared.game
    assert game.target.item_vectors is None
    assert game.target.lists.shape == (len(game.truth), 10)
    assert not np.isin(game.target_users, game.shadow_users).any()
    assert game.target_users.min() >= 1000
    assert prepared.input.model == prepared.input.shadow_model == "als"
    assert prepared.input.name == "small"
    assert prepared.filtered.users > 0
    assert prepared.utility.before is prepared.before is prepared.static is None
    assert "for too few interactions" in prepared.notes[0]


def test_the_seed_decides_the_lists(scenario: TrainedScenario) -> None:
    first, again, other = (build(scenario, seed=seed).game.target.lists for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert first.tobytes() != other.tobytes()


def test_a_defense_gives_three_games_and_changes_lists_of_non_members_only(scenario: TrainedScenario) -> None:
    prepared = build(replace(scenario, defense=MethodConfig("popularity", {"pool": 40})))
    game, before, static = prepared.game, prepared.before, prepared.static
    assert before is not None
    assert static is not None
    unchanged = (game.target.lists == before.target.lists).all(1)
    assert unchanged[game.truth].all()
    assert not unchanged[~game.truth].any()
    np.testing.assert_array_equal(static.target.lists, game.target.lists)
    np.testing.assert_array_equal(static.shadows[0].watched.lists, before.shadows[0].watched.lists)
    assert prepared.utility.non_member_change.n == int((~game.truth).sum())
    assert prepared.defense.model_dump() == {"name": "popularity", "options": {"pool": 40}}


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"policy": ServingPolicy("fold-in-all", "kept", k=10)}, True),
        ({"policy": ServingPolicy(seen="paper", k=10)}, False),
        ({"policy": ServingPolicy("popular", k=10)}, False),
        ({"defense": MethodConfig("popularity", {"pool": 40})}, False),
    ],
)
def test_a_guarantee_holds_only_where_members_and_non_members_are_served_alike(
    scenario: TrainedScenario, change: dict[str, Any], holds: bool
) -> None:
    private = MethodConfig("dp-cov", {"epsilon": 200.0, "delta": 0.1, "noise_seed": 0})
    prepared = build(replace(scenario, target=private, **change))
    assert (prepared.privacy is not None) == holds
    assert any("guarantee of the model does not hold" in note for note in prepared.notes) != holds
    assert any("above 1 / users" in note for note in prepared.notes)
    assert any("are released" in note for note in prepared.notes)


def test_sequential_models_need_fewer_interactions_of_users_and_more_of_items(scenario: TrainedScenario) -> None:
    general = replace(scenario, user_minimum=None)
    assert general.minimums == (20, 1)
    assert replace(general, shadow=MethodConfig("gru4rec")).minimums == (5, 5)
    assert replace(general, target=MethodConfig("caser"), user_minimum=7).minimums == (7, 5)


def test_items_without_a_text_have_no_vector(scenario: TrainedScenario, tmp_path: Path) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("item_id,text\n" + "".join(f"{5000 + i},word{i % 3}\n" for i in range(60)))
    prepared = build(scenario, items=ItemSource(texts=texts))
    assert prepared.input.item_vectors == "texts, hashed"
    assert any("no item vector" in note for note in prepared.game.notes)


def test_reference_models_give_signals_of_the_target(scenario: TrainedScenario) -> None:
    prepared = build(replace(scenario, references=ReferenceModels(4)))
    signals = prepared.game.target.reference_signals
    assert signals is not None
    assert signals.trained_on.shape == (len(prepared.game.truth), 4)
    assert prepared.references.model_dump() == {"n": 4, "signal": "rank-percentile"}
    assert prepared.game.shadows[0].watched.reference_signals is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"references": ReferenceModels(4), "policy": ServingPolicy("popular")}, "by fold-in"),
        ({"references": ReferenceModels(4), "defense": MethodConfig("popularity")}, "it has no effect on them"),
        ({"defense": MethodConfig("popularty")}, "Did you mean 'popularity'"),
        ({"defense": MethodConfig("sliced")}, "No list defense is called 'sliced'"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    scenario: TrainedScenario, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        build(replace(scenario, **changes))  # type: ignore[arg-type]
