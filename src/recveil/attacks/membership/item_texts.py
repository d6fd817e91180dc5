"""Item vectors from item texts: any encoder of sentences, or the small one here, which needs no download.

The bundled encoder hashes words and pairs of words and projects them at random: texts that share words come out alike.
It knows no language; name a sentence encoder for more (`encode` is any callable from texts to rows).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from recveil.core.errors import DataError
from recveil.core.types import FloatArray

__all__ = ["TextEncoder", "hash_texts", "encode_item_texts"]

TextEncoder = Callable[[Sequence[str]], FloatArray]
"""Texts in, one row of numbers for each out."""

VECTOR_SIZE = 100
HASH_BUCKETS = 2**14


def hash_texts(texts: Sequence[str]) -> FloatArray:
    """A row of 100 numbers for each text, always the same for the same text."""
    words = HashingVectorizer(n_features=HASH_BUCKETS, ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b").transform(
        texts
    )
    projection = (
        np.random.default_rng(0).standard_normal((HASH_BUCKETS, VECTOR_SIZE), dtype=np.float32) / VECTOR_SIZE**0.5
    )
    return np.asarray(words.astype(np.float32) @ projection, dtype=np.float32)


def encode_item_texts(texts: Sequence[str | None], encode: TextEncoder = hash_texts) -> NDArray[np.float32]:
    """A vector for each item; an item without text has none, a row that is not a number."""
    there = np.array([bool(text and text.strip()) for text in texts], dtype=np.bool_)
    if not there.any():
        raise DataError(f"None of the {len(texts)} items has a text. Give the texts, or item vectors.")
    known = [text for text in texts if text and text.strip()]
    rows = np.asarray(encode(known), dtype=np.float32)
    if rows.ndim != 2 or len(rows) != len(known):
        raise DataError(
            f"The encoder gave an array of shape {rows.shape} for {len(known)} texts. It must give one row for each."
        )
    vectors = np.full((len(texts), rows.shape[1]), np.nan, dtype=np.float32)
    vectors[there] = rows
    return vectors
