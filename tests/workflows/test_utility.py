"""Users served from a table, whatever its order: ranks, lists and a loss; from files and from a trained run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Attribute
from recveil.data.io.release_files import write_vectors
from recveil.data.io.user_tables import Vectors, read_embeddings
from recveil.metrics.ranking import Ranks, ndcg
from recveil.testing.worlds import make_checkerboard
from recveil.workflows.inputs import InputFiles, count_activity
from recveil.workflows.utility import (
    Recommendations,
    compare_rankings,
    recommendations_from_files,
    recommendations_from_run,
)


@pytest.fixture
def vectors(trained_run: Path) -> Vectors:
    return read_embeddings(trained_run / "users.parquet")


def test_a_run_is_served_by_its_own_model_in_any_order_of_the_table(trained_run: Path, vectors: Vectors) -> None:
    order = np.random.default_rng(0).permutation(len(vectors.x))
    shuffled = replace(vectors, x=vectors.x[order], ids=vectors.ids.take(pa.array(order)))
    one, two = recommendations_from_run(trained_run, vectors), recommendations_from_run(trained_run, shuffled)
    quality = ndcg(one.rank_test_items(vectors.x), 10)
    assert np.array_equal(quality, ndcg(two.rank_test_items(shuffled.x), 10))
    assert ndcg(one.rank_test_items(vectors.x[order]), 10).mean() < quality.mean()  # other users' vectors serve worse
    lists = one.make_release(vectors.x, 5).lists
    assert np.array_equal(lists[order], two.make_release(shuffled.x, 5).lists)
    counts = two.count_interactions(len(order))
    assert np.array_equal(counts, count_activity(InputFiles(None, None, run=trained_run), shuffled))
    assert np.array_equal(counts, one.count_interactions(len(order))[order])
    assert len(np.unique(counts)) > 1


def test_lists_omit_seen_items_unless_asked(trained_run: Path, vectors: Vectors) -> None:
    served = recommendations_from_run(trained_run, vectors)
    seen = set(zip(served.rows[served.split.train.user].tolist(), served.split.train.item.tolist(), strict=True))

    def count_seen(lists: np.ndarray) -> int:
        return len(seen & {(u, i) for u, row in enumerate(lists.tolist()) for i in row})

    assert count_seen(served.make_release(vectors.x, 5).lists) == 0
    assert count_seen(served.make_release(vectors.x, 5, with_seen=True).lists) > 0


def test_the_loss_is_lower_for_the_users_own_vectors(trained_run: Path, vectors: Vectors) -> None:
    served = recommendations_from_run(trained_run, vectors)
    loss = served.make_loss(device="cpu", seed=0)
    own, exchanged = (float(loss(torch.tensor(x.copy()))) for x in (vectors.x, vectors.x[::-1]))
    assert own < exchanged
    network = Recommendations(served.split, served.score, None, served.rows)
    with pytest.raises(UsageError, match="scores by a network"):
        network.make_loss(device="cpu", seed=0)


def test_files_are_served_by_products_and_hold_the_newest_item_out(tmp_path: Path) -> None:
    split = make_checkerboard()
    parts = (split.train, split.valid, split.test)
    table = {"user_id": np.concatenate([p.user for p in parts]), "item_id": np.concatenate([p.item for p in parts])}
    table["timestamp"] = np.concatenate([np.asarray(p.time) for p in parts])
    pq.write_table(pa.table(table), tmp_path / "i.parquet")
    rng = np.random.default_rng(1)
    x, q = (rng.normal(size=(n, 3)).astype(np.float32) for n in (split.train.n_users, split.train.n_items))
    write_vectors(tmp_path / "u.parquet", "user_id", split.train.user_ids, x)
    write_vectors(tmp_path / "q.parquet", "item_id", split.train.item_ids, q)
    vectors, history = read_embeddings(tmp_path / "u.parquet"), tmp_path / "i.parquet"
    served = recommendations_from_files(vectors, tmp_path / "q.parquet", history, seed=0)
    assert np.array_equal(np.sort(served.split.test.item), np.sort(split.test.item))
    users = np.array([3, 5])
    assert served.score(users, x[users]) == pytest.approx(x[users] @ q.T, abs=1e-5)
    assert served.note
    write_vectors(tmp_path / "wide.parquet", "item_id", split.train.item_ids, np.ones((len(q), 4), np.float32))
    with pytest.raises(DataError, match="User vectors have 3 numbers and item vectors 4"):
        recommendations_from_files(vectors, tmp_path / "wide.parquet", history, seed=0)


def test_a_run_without_its_config_is_refused(tmp_path: Path, vectors: Vectors) -> None:
    with pytest.raises(DataError, match=r"config\.json cannot be read"):
        recommendations_from_run(tmp_path, vectors)
    for seed in ("-1", "null", "1.5", "NaN", "true", '"0"', "9" * 400):
        (tmp_path / "config.json").write_text(f'{{"model": "als", "data": "demo", "seed": {seed}}}')
        with pytest.raises(DataError, match=r"config\.json is (damaged .seed|not a JSON document)"):
            recommendations_from_run(tmp_path, vectors)


def test_rankings_are_compared_user_by_user_overall_and_for_each_class() -> None:
    users, none = np.arange(4), np.zeros(4, dtype=np.int64)
    before, after = Ranks(users, users, none, none), Ranks(users, users, np.array([0, 0, 30, 30]), none)
    half = Attribute("half", np.array([0, 0, 1, 1]), ("kept", "lost"))
    utility = compare_rankings(before, after, [half], note="mind")
    assert utility.note == "mind"
    assert (utility.before["hit_rate@10"].value, utility.after["hit_rate@10"].value) == (1.0, 0.5)
    assert (utility.difference["hit_rate@10"].value, utility.difference["hit_rate@10"].n) == (-0.5, 4)
    changes = {label: change.difference["ndcg@10"].value for label, change in utility.per_class["half"].items()}
    assert changes == {"kept": 0.0, "lost": -1.0}
