import numpy as np
import torch

from recveil.core.random import make_generator, make_torch_generator


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
