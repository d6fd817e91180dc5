"""Hashes of ids: distinct for distinct ids, independent of blocks, and repeats are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.streaming import id_hashes as hashing
from recveil.streaming.id_hashes import find_repeated_hashes, hash_ids, mix_bits


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=60))
def test_different_numbers_have_different_hashes(numbers: list[int]) -> None:
    assert len(set(mix_bits(np.array(numbers, dtype=np.int64)).tolist())) == len(numbers)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.text(min_size=1, max_size=20), unique=True, min_size=1, max_size=40), st.data())
def test_texts_keep_apart_whatever_the_slice(texts: list[str], data: st.DataObject) -> None:
    array = pa.array(texts)
    every = hash_ids(array, "here")
    assert len(set(every.tolist())) == len(texts)
    start = data.draw(st.integers(0, len(texts) - 1))
    np.testing.assert_array_equal(hash_ids(array.slice(start), "here"), every[start:])


def test_numbers_and_texts_meet_where_asked() -> None:
    numbers, texts = pa.array([5, 12345678901]), pa.array(["5", "12345678901"])
    np.testing.assert_array_equal(hash_ids(numbers, "", text=True), hash_ids(texts, ""))
    assert (hash_ids(numbers, "") != hash_ids(texts, "")).all()


def test_keys_look_random() -> None:
    keys = mix_bits(np.arange(100_000), 3).astype(np.float64) / 2.0**64
    assert abs(keys.mean() - 0.5) < 0.005
    assert abs(np.corrcoef(keys[1:], keys[:-1])[0, 1]) < 0.01
    assert (mix_bits(np.arange(9), 3) != mix_bits(np.arange(9), 4)).all()


@pytest.mark.parametrize("piece", [7, 1 << 22])
def test_repeated_hashes_are_found_across_runs(tmp_path: Path, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "SLICE_HASHES", piece)
    every = mix_bits(np.arange(200))
    runs = [tmp_path / name for name in "abc"]
    np.sort(every[:90]).tofile(runs[0])
    np.sort(every[90:]).tofile(runs[1])
    every[:0].tofile(runs[2])
    assert len(find_repeated_hashes(runs, 200)) == 0
    np.sort(every[[3, 150, 150]]).tofile(runs[2])
    np.testing.assert_array_equal(find_repeated_hashes(runs, 203), np.sort(every[[3, 150]]))


def test_whole_numbers_are_cut_into_slices_of_the_same_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "SLICE_HASHES", 1 << 11)
    ids = np.concatenate([np.arange(30_000), [-5, 2**62, 17, 17, 17]])
    runs = [tmp_path / "a", tmp_path / "b"]
    for run, part in zip(runs, np.array_split(ids, 2), strict=True):
        np.sort(hash_ids(pa.array(part), "")).tofile(run)
    mapped = [np.fromfile(run, np.uint64) for run in runs]
    bounds = hashing.find_bounds(mapped, 15)
    sizes = np.diff(np.searchsorted(np.sort(np.concatenate(mapped)), bounds), prepend=0, append=len(ids))
    assert len(sizes) == 15
    assert sizes.max() < 3_000
    np.testing.assert_array_equal(find_repeated_hashes(runs, len(ids)), [17])
