"""A small world in a folder, a run trained on it, and audits that take a moment."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.random import make_generator
from recveil.data.synthetic import make_world
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.train import TrainRequest, train_run


@pytest.fixture(scope="session")
def quick() -> AuditProtocol:
    """A line and a quadric on three folds: the statistics are tested with the audit, here it is the flow."""
    return AuditProtocol(panel="logistic,qda", folds=3, repeats=1, device="cpu")


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 500 users: gender leaks strongly, handedness not at all."""
    leaks, rng = {"gender": 3.0, "handedness": 0.0}, make_generator(0, "small")
    data = make_world(n_users=500, n_items=200, n_interactions=15_000, leaks=leaks, strength=2.4, rng=rng).dataset
    folder = tmp_path_factory.mktemp("data") / "small"
    folder.mkdir()
    interactions = {"user_id": data.user, "item_id": data.item, "timestamp": data.time}
    pq.write_table(pa.table(interactions), folder / "interactions.parquet")
    labels = {name: [a.labels[code] for code in a.codes] for name, a in data.attributes.items()}
    pq.write_table(pa.table({"user_id": data.user_ids, **labels}), folder / "users.parquet")
    return folder


@pytest.fixture(scope="session")
def request_small(data_folder: Path) -> TrainRequest:
    """A matrix factorization of the small world."""
    return TrainRequest(str(data_folder), "bprmf", {"epochs": 10, "embedding_size": 8}, k=10, device="cpu")


@pytest.fixture(scope="session")
def trained_run(request_small: TrainRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model trained on the small world; read only."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    train_run(request_small, folder)
    return folder


@pytest.fixture(autouse=True)
def _quick(quick_self_check: None) -> None:
    """Check defended tables quickly."""
