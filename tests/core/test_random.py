from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from recveil.core.errors import DataError
from recveil.core.random import PairDraws, make_generator, make_torch_generator, read_key


def test_same_seed_and_role_same_stream() -> None:
    assert make_generator(7, "split").integers(1 << 60) == make_generator(7, "split").integers(1 << 60)


def test_roles_and_seeds_are_independent_streams() -> None:
    streams = [make_generator(s, *r).standard_normal(5_000) for s in (0, 1) for r in (("a",), ("b",), ("a", 1))]
    correlation = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(correlation).max() < 5 / np.sqrt(5_000)


def test_the_torch_generator_follows_the_numpy_one() -> None:
    draws = [torch.rand(3, generator=make_torch_generator(make_generator(0, "x"))) for _ in range(2)]
    assert torch.equal(*draws)


def test_global_generators_are_left_alone() -> None:
    before = np.random.get_state()[1].copy(), torch.get_rng_state().clone()  # noqa: NPY002
    make_torch_generator(make_generator(3, "x"))
    assert np.array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(before[1], torch.get_rng_state())


def test_pairs_keep_their_draw_in_any_table() -> None:
    users, items = np.repeat(np.arange(50), 40), np.tile(np.arange(40), 50)
    draws = PairDraws.from_ids(3, [f"u{n}" for n in range(50)], range(40))(users, items)
    assert stats.kstest(draws, "uniform").pvalue > 1e-3
    table = draws.reshape(50, 40)
    assert np.abs(np.corrcoef(table) - np.eye(50)).max() < 5 / np.sqrt(40)  # users do not share their draws
    part = PairDraws.from_ids(3, ["u7", "new", "u3"], range(39, -1, -1))
    np.testing.assert_array_equal(part(np.array([0, 2]), np.array([0, 39])), [table[7, 39], table[3, 0]])
    assert PairDraws.from_ids(4, ["u7"], [39])(np.array([0]), np.array([0]))[0] != table[7, 39]


def test_a_key_is_long_and_decides_the_number(tmp_path: Path) -> None:
    keys = [tmp_path / name for name in "ab"]
    for path, content in zip(keys, (b"k" * 32, b"l" * 32), strict=True):
        path.write_bytes(content)
    one, other = (read_key(path) for path in keys)
    assert one == read_key(keys[0])
    assert one != other
    assert one > 2**64  # no seed that could be tried out
    keys[0].write_bytes(b"short   \n")
    with pytest.raises(DataError, match="fewer than 16 bytes"):
        read_key(keys[0])
    with pytest.raises(DataError, match="cannot be read"):
        read_key(tmp_path)
