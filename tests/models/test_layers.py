from __future__ import annotations

import pytest
import torch

from recveil.models.layers import apply_dropout, export_weights, make_layer, make_table


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_dropout_keeps_the_mean_and_follows_its_generator() -> None:
    x = torch.ones(200, 200)
    once = apply_dropout(x, 0.25, seeded())
    assert once.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert once.mean().item() == pytest.approx(1.0, abs=0.02)
    assert torch.equal(once, apply_dropout(x, 0.25, seeded()))
    assert not torch.equal(once, apply_dropout(x, 0.25, seeded(1)))
    assert apply_dropout(x, 0.0, seeded()) is x


def test_layers_start_from_our_generator_alone() -> None:
    before = torch.get_rng_state()
    one, two, other = (make_layer(torch.nn.GRU, 4, 6, generator=seeded(s)) for s in (0, 0, 1))
    make_layer(torch.nn.Conv1d, 4, 6, 2, generator=seeded())
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one.weight_hh_l0, two.weight_hh_l0)
    assert not torch.equal(one.weight_hh_l0, other.weight_hh_l0)
    assert one.weight_hh_l0.abs().max() <= 6**-0.5
    assert not one.bias_hh_l0.any()


def test_a_table_has_vectors_of_the_length_asked_for() -> None:
    rows = make_table(2_000, 16, 0.5, seeded())
    assert rows.requires_grad
    assert rows.detach().square().sum(1).mean().sqrt().item() == pytest.approx(0.5, rel=0.02)


def test_weights_are_arrays_that_load_again() -> None:
    one, two = (make_layer(torch.nn.Linear, 3, 2, generator=seeded(s)) for s in (0, 1))
    two.load_state_dict({name: torch.as_tensor(value) for name, value in export_weights(one).items()})
    assert torch.equal(one.weight, two.weight)
