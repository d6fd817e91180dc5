"""Item vectors from item texts, by any sentence encoder or the bundled one.

The bundled encoder hashes words and pairs of words and projects them at random: texts that share words get similar
vectors. It knows no language; pass a sentence encoder for more (`encode` is any callable from texts to rows).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from recveil.core.errors import DataError
from recveil.core.types import FloatArray

__all__ = ["TextEncoder", "encode_item_texts", "hash_texts"]

TextEncoder = Callable[[Sequence[str]], FloatArray]
"""A function from texts to one row of numbers for each."""

VECTOR_SIZE = 100
HASH_BUCKETS = 2**14


def hash_texts(texts: Sequence[str]) -> FloatArray:
    """Return a row of 100 numbers for each text, always the same for the same text."""
    words = r"(?u)\b\w+\b"
    vectorizer = HashingVectorizer(n_features=HASH_BUCKETS, ngram_range=(1, 2), token_pattern=words)
    counts = vectorizer.transform(texts)
    projection = np.random.default_rng(0).standard_normal((HASH_BUCKETS, VECTOR_SIZE), dtype=np.float32)
    return np.asarray(counts.astype(np.float32) @ (projection / VECTOR_SIZE**0.5), dtype=np.float32)


def encode_item_texts(texts: Sequence[str | None], encode: TextEncoder = hash_texts) -> NDArray[np.float32]:
    """Return a vector for each item; the vector of an item without text is NaN."""
    has_text = np.array([bool(text and text.strip()) for text in texts], dtype=np.bool_)
    if not has_text.any():
        raise DataError(f"None of the {len(texts)} items has a text. Give the texts, or item vectors.")
    known_texts = [text for text in texts if text and text.strip()]
    rows = np.asarray(encode(known_texts), dtype=np.float32)
    if rows.ndim != 2 or len(rows) != len(known_texts):
        raise DataError(
            f"The encoder gave an array of shape {rows.shape} for {len(known_texts)} texts. It must give one row for "
            "each."
        )
    vectors = np.full((len(texts), rows.shape[1]), np.nan, dtype=np.float32)
    vectors[has_text] = rows
    return vectors
