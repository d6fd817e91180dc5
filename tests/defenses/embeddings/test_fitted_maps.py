"""Fitted maps: users who come later, and maps on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import Task
from recveil.core.errors import DataError
from recveil.core.types import UNDISCLOSED
from recveil.defenses.embeddings.fitted_maps import FittedMap
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.embeddings.transformers import MapTransformer, load_map
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.testing.worlds import make_planted_leak
from recveil.transport.coordinates import COORDINATES


def skewed(seed: int, n: int, d: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Two classes of different mean and shape."""
    x, secret = make_planted_leak(n, d, 2, 2.0, rng=np.random.default_rng(seed))
    x[secret.codes == 0] = np.sign(x[secret.codes == 0]) * np.abs(x[secret.codes == 0]) ** 1.7
    return x, secret.codes


def make(name: str) -> MapTransformer:
    return Gaussian(device="cpu") if name == "gaussian" else Sliced(device="cpu")


def carry(method: MapTransformer, x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Carry users of the fit by the map, as later users are carried."""
    return method.map_(x, codes[:, None], torch.device("cpu"))


def test_gaussian_map_is_that_of_the_fit() -> None:
    x, codes = skewed(0, 400)
    method = make("gaussian")
    np.testing.assert_allclose(method.fit_transform(x, codes), carry(method, x, codes), atol=1e-5)


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("norm", ["keep", "unit"])
def test_without_draw_and_trades_the_stored_round_repeats_the_fit(norm: str, coordinates: str) -> None:
    """One round; over many, what the tables smooth away adds up like the noise that it is."""
    x, codes = skewed(1, 2000)
    one, none = (
        Sliced(rounds=rounds, drawn=False, trade=False, coordinates=coordinates, norm=norm, device="cpu")
        for rounds in (1, 0)
    )
    fitted, again = one.fit_transform(x, codes), carry(one, x, codes)
    before = none.fit_transform(x, codes)
    assert np.linalg.norm(again - fitted) < 0.2 * np.linalg.norm(before - fitted)


@pytest.mark.thorough
@pytest.mark.parametrize("attack", ["logistic", "qda", "knn", "trees"])
def test_new_users_of_known_class_tell_an_attacker_nothing(attack: str) -> None:
    x, codes = skewed(3, 7000)
    early, late = np.arange(3000), np.arange(3000, 7000)

    def met(table: np.ndarray) -> float:
        guess = make_attack(attack, "cpu").guess(table, codes, 2, [Task(early, late)], rng=np.random.default_rng(0))[0]
        return balanced_accuracy(compute_confusion(codes[late], guess.argmax(1), 2))

    method = make("sliced")
    published = method.fit_transform(x[early], codes[early])
    assert met(x) > 0.7
    released = np.concatenate([published, method.transform(x[late], codes[late])])
    assert abs(met(released) - 0.5) < 0.05  # 6 standard errors of 4,000 users


@pytest.mark.parametrize("kind", ["gaussian", *COORDINATES])
def test_who_is_unknown_goes_where_no_label_is_needed(kind: str) -> None:
    x, codes = skewed(4, 500)
    full, bare = (
        Gaussian(device="cpu")
        if kind == "gaussian"
        else Sliced(rounds=rounds, drawn=drawn, coordinates=kind, trade=False, device="cpu")
        for rounds, drawn in ((None, True), (0, False))
    )
    method, bare = full.fit(x, codes), bare.fit(x, codes)
    x = 1.01 * x
    nobody = method.transform(x)
    np.testing.assert_array_equal(nobody, method.transform(x, np.full(len(x), UNDISCLOSED)))
    np.testing.assert_array_equal(nobody, method.transform(x, np.full(len(x), 17)))
    mixed = np.where(np.arange(len(x)) % 2 == 0, UNDISCLOSED, codes)
    np.testing.assert_array_equal(method.transform(x, mixed)[::2], nobody[::2])
    np.testing.assert_allclose(nobody, bare.transform(x), atol=1e-5)


def test_one_class_is_a_map_that_does_nothing(tmp_path: Path) -> None:
    x, codes = skewed(7, 50)
    method = make("sliced").fit(x, np.zeros_like(codes))
    method.save(tmp_path / "map")
    np.testing.assert_allclose(load_map(tmp_path / "map").set_params(device="cpu").transform(x, codes), x, atol=1e-6)


def test_a_table_or_codes_of_another_shape_are_refused() -> None:
    x, codes = skewed(6, 100)
    fitted: FittedMap = make("gaussian").fit(x, codes).map_
    with pytest.raises(DataError, match="5 dimensions"):
        fitted(x[:, :3], codes, torch.device("cpu"))
    with pytest.raises(DataError, match="1 attributes; codes for 2"):
        fitted(x, np.stack([codes, codes], axis=1), torch.device("cpu"))
