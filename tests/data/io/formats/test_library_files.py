"""Files that implicit and RecBole themselves save: read with the right ids, written back, loaded by the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import read_embeddings

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

N_USERS, N_ITEMS, D = 40, 30, 8
USERS = [f"u{number}" for number in np.random.default_rng(0).permutation(N_USERS)]


@pytest.fixture
def likes() -> np.ndarray:
    """Twelve items of each user."""
    return np.random.default_rng(1).permuted(np.tile(np.arange(N_ITEMS), (N_USERS, 1)), axis=1)[:, :12]


def write_ids(path: Path, ids: list[str]) -> Path:
    path.write_text("\n".join(ids) + "\n")
    return path


@pytest.mark.parametrize("kind", ["als", "bpr", "lmf"])
def test_models_that_implicit_saved(kind: str, likes: np.ndarray, tmp_path: Path) -> None:
    implicit = pytest.importorskip("implicit")
    classes = {
        "als": implicit.cpu.als.AlternatingLeastSquares,
        "bpr": implicit.cpu.bpr.BayesianPersonalizedRanking,
        "lmf": implicit.cpu.lmf.LogisticMatrixFactorization,
    }
    rows = np.repeat(np.arange(N_USERS), likes.shape[1])
    matrix = sparse.csr_matrix((np.ones(likes.size, np.float32), (rows, likes.ravel())), shape=(N_USERS, N_ITEMS))
    model = classes[kind](factors=D, iterations=2, random_state=0, num_threads=1)
    model.fit(matrix, show_progress=False)
    model.save(str(tmp_path / "model.npz"))
    vectors = read_embeddings(tmp_path / "model.npz", write_ids(tmp_path / "ids.txt", USERS))
    assert vectors.ids.to_pylist() == USERS
    np.testing.assert_array_equal(vectors.x, model.user_factors)
    write_embeddings(tmp_path / "out.npz", vectors, 2 * vectors.x)
    loaded = classes[kind].load(str(tmp_path / "out.npz"))
    np.testing.assert_array_equal(loaded.user_factors, 2 * model.user_factors)
    np.testing.assert_array_equal(loaded.item_factors, model.item_factors)
    assert loaded.recommend(3, matrix[3])[0].tolist() == model.recommend(3, matrix[3])[0].tolist()


@pytest.fixture
def recbole(monkeypatch: pytest.MonkeyPatch) -> Any:
    """RecBole, which uses names that NumPy 2 no longer has."""
    for name, kind in {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}.items():
        if not hasattr(np, name):
            monkeypatch.setattr(np, name, kind, raising=False)
    pytest.importorskip("recbole")
    return pytest.importorskip("recbole.quick_start", reason="recbole does not import with these packages")


def train_recbole(likes: np.ndarray, folder: Path) -> tuple[Any, Any, Path]:
    """Train by RecBole's own trainer; return model, data and the checkpoint it saved."""
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.model.general_recommender import BPR
    from recbole.trainer import Trainer

    (folder / "toy").mkdir()
    pairs = [f"{user}\ti{item}" for user, items in zip(USERS, likes, strict=True) for item in items]
    (folder / "toy" / "toy.inter").write_text("user_id:token\titem_id:token\n" + "\n".join(pairs) + "\n")
    settings = {
        "data_path": str(folder),
        "checkpoint_dir": str(folder),
        "load_col": {"inter": ["user_id", "item_id"]},
        "epochs": 2,
        "embedding_size": D,
        "use_gpu": False,
        "show_progress": False,
        "state": "ERROR",
    }
    config = Config(model="BPR", dataset="toy", config_dict=settings)
    data = create_dataset(config)
    train, valid, _ = data_preparation(config, data)
    model = BPR(config, train.dataset)
    trainer = Trainer(config, model)
    trainer.fit(train, valid, saved=True, show_progress=False)
    return model, data, Path(trainer.saved_model_file)


def test_checkpoints_that_recbole_saved(
    recbole: Any, likes: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr("sys.argv", ["recbole"])  # its configuration reads the command line
    monkeypatch.chdir(tmp_path)
    model, data, path = train_recbole(likes, tmp_path)
    saved = torch.load(path, weights_only=False)
    tokens = [str(token) for token in data.field2id_token["user_id"]]
    vectors = read_embeddings(path, write_ids(tmp_path / "ids.txt", tokens))
    assert sorted(vectors.ids.to_pylist()) == sorted(["[PAD]", *USERS])
    expected = saved["state_dict"]["user_embedding.weight"].numpy()
    np.testing.assert_array_equal(vectors.x[vectors.ids.to_pylist().index("u7")], expected[tokens.index("u7")])
    write_embeddings(tmp_path / "out.pth", vectors, 2 * vectors.x)
    again = torch.load(tmp_path / "out.pth", weights_only=False)
    assert type(again["config"]) is type(saved["config"])
    assert again["config"]["embedding_size"] == D
    assert again["optimizer"]["param_groups"] == saved["optimizer"]["param_groups"]
    model.load_state_dict(again["state_dict"])
    np.testing.assert_array_equal(model.user_embedding.weight.detach().numpy(), 2 * expected)
    items = again["state_dict"]["item_embedding.weight"]
    assert torch.equal(items, saved["state_dict"]["item_embedding.weight"])
