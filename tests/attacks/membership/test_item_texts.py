"""Texts that share words have vectors that are alike; encoders and missing texts are checked."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.membership.item_texts import VECTOR_SIZE, encode_item_texts, hash_texts
from recveil.core.errors import DataError


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_texts_that_share_words_have_similar_vectors() -> None:
    a, b, c = hash_texts(["Star Wars A New Hope", "Star Wars Return of the Jedi", "Pride and Prejudice"])
    assert a.shape == (VECTOR_SIZE,)
    assert cosine(a, b) > cosine(a, c) + 0.1


def test_the_vector_of_a_text_depends_on_the_text_alone() -> None:
    np.testing.assert_array_equal(hash_texts(["The Matrix"])[0], hash_texts(["Heat", "The Matrix", "Alien"])[1])


def test_items_without_text_have_no_vector() -> None:
    vectors = encode_item_texts(["Heat", None, " ", "Alien"])
    assert np.isnan(vectors).all(1).tolist() == [False, True, True, False]
    np.testing.assert_array_equal(vectors[3], hash_texts(["Alien"])[0])


def test_any_encoder_can_be_used() -> None:
    vectors = encode_item_texts(["a", None, "bcd"], lambda texts: np.array([[len(t)] for t in texts]))
    np.testing.assert_array_equal(vectors[[0, 2]], [[1], [3]])


def test_items_without_text_and_bad_encoders_are_refused() -> None:
    with pytest.raises(DataError, match="None of the 2 items has a text"):
        encode_item_texts([None, ""])
    with pytest.raises(DataError, match=r"shape \(1, 2\) for 2 texts"):
        encode_item_texts(["a", "b"], lambda texts: np.zeros((1, 2)))
