"""Games from a model that is trained here, and from files; both number users and items rightly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from recveil.audits.membership.platforms import ServingPolicy
from recveil.audits.membership.scenarios import ItemSource, ModelConfig, ObservedScenario, TrainedScenario
from recveil.core.errors import DataError, UsageError
from recveil.data.io.release_files import write_vectors
from recveil.data.synthetic import make_world
from recveil.defenses.lists.popularity import Popularity

QUICK = ModelConfig("als", {"epochs": 2, "embedding_size": 8})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = make_world(n_users=240, n_items=120, n_interactions=7_000, leaks={}, rng=np.random.default_rng(0)).dataset
    path = tmp_path_factory.mktemp("world") / "small.csv"
    table = {"user_id": world.user + 1000, "item_id": world.item + 5000, "timestamp": world.time}
    pyarrow.csv.write_csv(pa.table(table), path)
    return path


def world(data: Path, **more: object) -> TrainedScenario:
    return TrainedScenario(str(data), QUICK, QUICK, ServingPolicy(k=10), 10, **more)  # type: ignore[arg-type]


def test_a_world_becomes_a_game_with_its_facts(data: Path) -> None:
    stage = world(data).build(ItemSource(), vectors=False, seed=0, device="cpu")
    assert stage.game.target.item_vectors is None
    assert stage.game.target.lists.shape == (len(stage.game.truth), 10)
    assert not np.isin(stage.game.target_users, stage.game.shadow_users).any()
    assert stage.game.target_users.min() >= 1000
    assert stage.about["model"] == stage.about["shadow_model"] == "als"
    assert stage.facts["filtered"]["users"] > 0
    assert set(stage.facts["utility"]) == {"members", "others"}
    assert stage.before is stage.static is None
    assert "for too few interactions" in stage.notes[0]


def test_same_seed_same_lists_and_another_seed_others(data: Path) -> None:
    def lists(seed: int) -> np.ndarray:
        return world(data).build(ItemSource(), vectors=False, seed=seed, device="cpu").game.target.lists

    np.testing.assert_array_equal(lists(3), lists(3))
    assert lists(3).tobytes() != lists(4).tobytes()


def test_a_defense_gives_three_games_and_only_others_lists_change(data: Path) -> None:
    stage = world(data, defense=Popularity(pool=40)).build(ItemSource(), vectors=False, seed=0, device="cpu")
    assert stage.before is not None
    assert stage.static is not None
    same = (stage.game.target.lists == stage.before.target.lists).all(1)
    assert same[stage.game.truth].all()
    assert not same[~stage.game.truth].any()
    np.testing.assert_array_equal(stage.static.target.lists, stage.game.target.lists)
    np.testing.assert_array_equal(stage.static.shadows[0].watched.lists, stage.before.shadows[0].watched.lists)
    assert stage.facts["utility"]["others_lost"]["n"] == int((~stage.game.truth).sum())


def test_sequential_models_ask_for_less_of_users_and_more_of_items(data: Path) -> None:
    general = replace(world(data), user_minimum=None)
    assert general.minimums == (20, 1)
    assert replace(general, shadow=ModelConfig("gru4rec")).minimums == (5, 5)
    assert replace(general, target=ModelConfig("caser"), user_minimum=7).minimums == (7, 5)


def test_item_vectors_come_from_texts_or_a_table_by_id(data: Path, tmp_path: Path) -> None:
    texts = tmp_path / "t.csv"
    texts.write_text("item_id,text\n" + "".join(f"{5000 + i},word{i % 3}\n" for i in range(60)))
    known = ItemSource(texts=texts).read(pa.array([5000, 5003, 5001, 9]))
    np.testing.assert_array_equal(known[0], known[1])
    assert (known[0] != known[2]).any()
    assert np.isnan(known[3]).all()
    write_vectors(tmp_path / "v.parquet", "item_id", np.array([2, 1]), np.array([[2.0], [1.0]]))
    assert ItemSource(vectors=tmp_path / "v.parquet").read(pa.array([1, 2]))[:, 0].tolist() == [1.0, 2.0]
    assert ItemSource().read(pa.array([1])) is None
    with pytest.raises(UsageError, match="not both"):
        ItemSource(texts, texts)
    stage = world(data).build(ItemSource(texts=texts), vectors=True, seed=0, device="cpu")
    assert any("no item vector" in note for note in stage.game.notes)


def files(folder: Path, shift: int = 100) -> ObservedScenario:
    """Six users on each side; odd ones are members and are listed what they touched."""
    paths = []
    for side, first in (("target", 0), ("shadow", shift)):
        users = range(first, first + 6)
        touched = {u: [(u * 3 + j) % 12 for j in range(4)] for u in users}
        listed = {u: touched[u][:3] if u % 2 else [9, 10, 11] for u in users}
        rows = {
            "histories": [f"{u},{i}" for u in users for i in touched[u]],
            "members": [f"{u},{u % 2}" for u in users],
        }
        rows["lists"] = [f"{u},{i},{r + 1}" for u in users for r, i in enumerate(listed[u])]
        heads = {"histories": "user_id,item_id", "lists": "user_id,item_id,rank", "members": "user_id,member"}
        for name, head in heads.items():
            path = folder / f"{side}-{name}.csv"
            path.write_text("\n".join([head, *rows[name]]) + "\n")
            paths.append(path)
    return ObservedScenario(paths[0], paths[1], paths[3], paths[4], paths[5], paths[2])


def test_files_become_a_game(tmp_path: Path) -> None:
    game = files(tmp_path).build(ItemSource(), vectors=False, seed=0, device="cpu").game
    assert game.truth.tolist() == [False, True] * 3
    overlap = [np.isin(row, h).sum() for row, h in zip(game.target.lists, game.target.histories, strict=True)]
    assert [overlap[u] for u in (1, 3, 5)] == [3, 3, 3]
    cut = replace(files(tmp_path), k=2).build(ItemSource(), vectors=False, seed=0, device="cpu").game
    assert cut.target.lists.shape == (6, 2)
    with pytest.raises(UsageError, match="the longest list in the files has 3 items"):
        replace(files(tmp_path), k=4).build(ItemSource(), vectors=False, seed=0, device="cpu")


def test_without_item_vectors_the_shadow_histories_are_factored_and_that_is_said(tmp_path: Path) -> None:
    stage = files(tmp_path).build(ItemSource(), vectors=True, seed=0, device="cpu")
    assert "factored from the shadow histories" in stage.notes[0]
    vectors = stage.game.target.item_vectors
    touched = np.unique(np.concatenate(stage.game.shadows[0].watched.histories))
    assert np.isfinite(vectors[touched]).all()
    assert np.isnan(np.delete(vectors, touched, axis=0)).all()


def test_a_user_on_both_sides_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="4 users are in both shadow and target, such as '2'"):
        files(tmp_path, shift=2).build(ItemSource(), vectors=True, seed=0, device="cpu")
