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
from recveil.data.io.release_files import write_vectors
from recveil.data.io.user_tables import Vectors, read_embeddings
from recveil.metrics.ranking import ndcg
from recveil.testing.worlds import checkerboard
from recveil.workflows.audit import activity_of
from recveil.workflows.inputs import Files
from recveil.workflows.serving import Serving, serve_files, serve_run
from recveil.workflows.train import Plan, train_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "run"
    train_run(Plan("demo", "bprmf", {"epochs": 2, "embedding_size": 8}, k=10, device="cpu"), folder)
    return folder


def vectors_of(run: Path) -> Vectors:
    return read_embeddings(run / "users.parquet")


def test_a_run_is_served_with_its_own_head_in_any_order_of_the_table(run: Path) -> None:
    vectors = vectors_of(run)
    order = np.random.default_rng(0).permutation(len(vectors.x))
    turned = replace(vectors, x=vectors.x[order], ids=vectors.ids.take(pa.array(order)))
    one, two = serve_run(run, vectors), serve_run(run, turned)
    assert np.array_equal(ndcg(one.ranks(vectors.x), 10), ndcg(two.ranks(turned.x), 10))
    lists = one.release(vectors.x, 5).lists
    assert lists is not None
    assert np.array_equal(lists[order], two.release(turned.x, 5).lists)
    shuffled = ndcg(one.ranks(vectors.x[order]), 10).mean()
    assert shuffled < ndcg(one.ranks(vectors.x), 10).mean()  # other people's vectors recommend worse


def test_the_loss_is_lower_for_the_users_own_vectors(run: Path) -> None:
    vectors = vectors_of(run)
    loss = serve_run(run, vectors).loss(device="cpu", rng=np.random.default_rng(0))
    own, others = (float(loss(torch.tensor(t.copy()))) for t in (vectors.x, vectors.x[::-1]))
    assert own < others


def test_files_are_served_by_products_and_hold_the_newest_item_out(tmp_path: Path) -> None:
    split = checkerboard()
    parts = (split.train, split.valid, split.test)
    table = {"user_id": np.concatenate([p.user for p in parts]), "item_id": np.concatenate([p.item for p in parts])}
    table["timestamp"] = np.concatenate([np.asarray(p.time) for p in parts])
    pq.write_table(pa.table(table), tmp_path / "i.parquet")
    rng = np.random.default_rng(1)
    x, q = rng.normal(size=(split.train.n_users, 3)), rng.normal(size=(split.train.n_items, 3))
    write_vectors(tmp_path / "u.parquet", "user_id", split.train.user_ids, x.astype(np.float32))
    write_vectors(tmp_path / "q.parquet", "item_id", split.train.item_ids, q.astype(np.float32))
    vectors, history = read_embeddings(tmp_path / "u.parquet"), tmp_path / "i.parquet"
    served = serve_files(vectors, tmp_path / "q.parquet", history, seed=0)
    assert np.array_equal(np.sort(served.split.test.item), np.sort(split.test.item))
    users = np.array([3, 5])
    x32, q32 = x.astype(np.float32), q.astype(np.float32)
    assert served.score(users, x32[users]) == pytest.approx(x32[users] @ q32.T, abs=1e-5)
    assert "newest interaction" in served.note
    write_vectors(
        tmp_path / "wide.parquet", "item_id", split.train.item_ids, np.ones((split.train.n_items, 4), np.float32)
    )
    with pytest.raises(DataError, match="User vectors have 3 numbers and item vectors 4"):
        serve_files(vectors, tmp_path / "wide.parquet", history, seed=0)


def test_activity_counts_every_interaction_in_the_order_of_the_table(run: Path) -> None:
    vectors = vectors_of(run)
    order = np.random.default_rng(0).permutation(len(vectors.x))
    turned = replace(vectors, x=vectors.x[order], ids=vectors.ids.take(pa.array(order)))
    counted = serve_run(run, turned).activity(len(order))
    assert np.array_equal(counted, activity_of(Files(None, None, run=run), turned))
    assert np.array_equal(counted, serve_run(run, vectors).activity(len(order))[order])
    assert len(np.unique(counted)) > 1


def test_a_network_has_no_loss_of_vectors_alone(run: Path) -> None:
    served = serve_run(run, vectors_of(run))
    network = Serving(served.split, served.score, None, served.rows)
    with pytest.raises(UsageError, match="scores by a network"):
        network.loss(device="cpu", rng=np.random.default_rng(0))


def test_a_run_without_its_config_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no readable config\.json"):
        serve_run(tmp_path, vectors_of(run))
