"""`transform` gives the users of a fit the rows that `fit_transform` gives them, and later users the map."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import recveil as rv
from recveil.core.types import UNDISCLOSED, FloatArray, IntArray
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings import released_rows
from recveil.defenses.embeddings.fitted_maps import FittedMap
from recveil.defenses.embeddings.released_rows import ReleasedRows
from recveil.defenses.embeddings.transformers import MapTransformer, load_map
from recveil.testing.worlds import make_planted_leak

WITH_MAP = [traits.name for traits in DEFENSES.all_traits() if traits.keeps_map]


@dataclass
class Numbering(MapTransformer):
    """Releases for each user a number of its own, as draws and trades do, and carries later users to -1."""

    def compute_release(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FittedMap]:
        """Return the numbers of the rows."""

        class ToMinusOne(FittedMap):
            def __call__(self, x: FloatArray, *_: object) -> FloatArray:
                return np.full(x.shape, -1, dtype=np.float32)

        numbers = np.repeat(np.arange(len(x), dtype=np.float32)[:, None], x.shape[1], axis=1)
        return numbers, ToMinusOne([], 1.0, 0.0, x.shape[1])


def find_numbers(method: MapTransformer, x: np.ndarray, y: object = None) -> list[int]:
    return [int(row[0]) for row in method.transform(x, y)]


def make_table(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    x, secret = make_planted_leak(n, 4, 2, 2.0, rng=np.random.default_rng(0))
    return x.astype(np.float64), secret.codes


@pytest.mark.parametrize("name", WITH_MAP)
def test_users_of_the_fit_get_the_rows_of_fit_transform_in_any_order(name: str) -> None:
    x, codes = make_table()
    y = np.where(np.arange(len(x)) % 7 == 0, UNDISCLOSED, codes)
    released = DEFENSES.make(name, device="cpu").fit_transform(x, y)
    method = DEFENSES.make(name, device="cpu").fit(x, y)
    order = np.random.default_rng(1).permutation(len(x))
    assert np.abs(released - x).max() > 1e-3
    np.testing.assert_array_equal(method.transform(x, y), released)
    np.testing.assert_array_equal(method.transform(x), released)
    np.testing.assert_array_equal(method.transform(x[order], y[order]), released[order])
    np.testing.assert_array_equal(method.transform(x[5:8], y[5:8]), released[5:8])


@pytest.mark.parametrize("fitted", [np.float32, np.float64])
@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_users_are_found_whatever_the_number_format_and_the_memory_order(fitted: type, given: type, order: str) -> None:
    x, codes = make_table()
    x[0] = -0.0
    method = Numbering().fit(np.asarray(x, dtype=fitted, order=order), codes)
    single = x.astype(np.float32)  # a table in double precision may have been read from a file in single precision
    x = x if fitted is given is np.float64 else single
    assert find_numbers(method, np.array(x, dtype=given, order="C" if order == "F" else "F"), codes) == list(range(300))
    x[0] = 0.0
    assert find_numbers(method, x.astype(given)) == list(range(300))


def test_a_data_frame_is_matched_row_by_row() -> None:
    pandas = pytest.importorskip("pandas")
    x, codes = make_table(60)
    frame = pandas.DataFrame(x, columns=list("abcd"), index=[f"u{i}" for i in range(60)])
    method = Numbering().fit(frame, codes)
    assert find_numbers(method, frame.iloc[::-1], codes[::-1]) == list(range(60))[::-1]


def test_equal_users_get_the_rows_of_their_class_each_once() -> None:
    x = np.array([[1.0], [1.0], [1.0], [1.0], [2.0]])
    y = np.array([0, 1, 0, UNDISCLOSED, 1])
    method = Numbering().fit(x, y)
    assert find_numbers(method, x, y) == [0, 1, 2, 3, 4]
    assert find_numbers(method, x[[1, 2, 0, 4]], y[[1, 2, 0, 4]]) == [1, 0, 2, 4]
    assert sorted(find_numbers(method, x)) == [0, 1, 2, 3, 4]
    # A third user of class 0 was not in the fit; who gave no class takes a row that nobody has by class.
    assert find_numbers(method, np.ones((5, 1)), [0, 0, 0, 1, None]) == [0, 2, -1, 1, 3]
    assert find_numbers(method, np.ones((3, 1)), [None, None, 1]) == [3, 0, 1]


def test_another_class_or_another_vector_is_a_later_user() -> None:
    x, codes = make_table(60)
    method = Numbering().fit(x, codes)
    assert find_numbers(method, x, 1 - codes) == [-1] * 60
    assert find_numbers(method, np.nextafter(x, np.inf), codes) == [-1] * 60
    mixed = np.where(np.arange(60) % 2 == 0, codes, 1 - codes)
    assert find_numbers(method, x, mixed) == [i if i % 2 == 0 else -1 for i in range(60)]


def test_with_several_attributes_those_that_are_given_must_agree() -> None:
    x = np.ones((3, 2))
    y = np.array([[0, 0], [0, 1], [1, UNDISCLOSED]])
    method = Numbering().fit(x, y)
    assert find_numbers(method, x, y) == [0, 1, 2]
    assert find_numbers(method, x, [[None, 1], [None, 0], [None, None]]) == [1, 0, 2]
    assert find_numbers(method, x, [[0, None], [0, 0], [1, 1]]) == [1, 0, -1]


def test_keys_that_are_equal_by_chance_do_not_mix_up_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released_rows, "compute_row_keys", lambda x: np.zeros(len(x), dtype=np.uint64))
    x = np.array([[1.0], [2.0]])
    rows = ReleasedRows(x, np.zeros((2, 1), dtype=np.int64), x)
    assert rows.find_users(x, np.zeros((2, 1), dtype=np.int64)).tolist() == [0, 1]
    assert rows.find_users(x[::-1], np.zeros((2, 1), dtype=np.int64)).tolist() == [-1, -1]


def test_a_caller_may_change_both_tables_afterwards() -> None:
    x, codes = make_table(60)
    given = x.astype(np.float32)
    method = Numbering()
    method.fit_transform(given, codes)[:] = 7.0
    given[:] = 0.0
    assert find_numbers(method, x.astype(np.float32), codes) == list(range(60))


@pytest.mark.parametrize("name", WITH_MAP)
def test_a_saved_map_holds_no_user_of_the_fit(name: str, tmp_path: Path) -> None:
    x, codes = make_table()
    method = DEFENSES.make(name, device="cpu")
    released = method.fit_transform(x, codes)
    method.save(tmp_path / "map")
    content = (tmp_path / "map").read_bytes()
    for table in (x, released):
        for kind in (np.float32, np.float64):
            assert not any(row.tobytes() in content for row in table.astype(kind))
    loaded = load_map(tmp_path / "map").set_params(device="cpu")
    assert loaded.released_ is None
    np.testing.assert_array_equal(loaded.transform(x + 1, codes), method.transform(x + 1, codes))


@pytest.mark.thorough
def test_the_lines_of_the_door_hide_the_class_of_the_users_of_the_fit() -> None:
    x, secret = make_planted_leak(900, 8, 2, 2.0, rng=np.random.default_rng(0))
    x, y, later = x[:800], secret.codes[:800], x[800:]
    cloak = rv.Sliced(device="cpu").fit(x, y)
    safe, new = cloak.transform(x, y), cloak.transform(later)

    def measure(table: np.ndarray) -> float:
        return rv.audit(table, y, panel="fast", repeats=1, device="cpu").headline.advantage.value

    assert new.shape == later.shape
    assert measure(x) > 0.4
    assert measure(safe) < 0.1
    assert measure(cloak.map_(x, y[:, None], torch.device("cpu"))) > 0.15  # the map alone would not have hidden it
    np.testing.assert_array_equal(safe, rv.Sliced(device="cpu").fit_transform(x, y))
