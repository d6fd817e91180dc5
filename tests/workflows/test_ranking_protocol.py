from __future__ import annotations

import numpy as np
import pytest

from recveil.core.errors import UsageError
from recveil.data.synthetic import make_demo_world
from recveil.workflows.ranking_protocol import DEFAULT_PROTOCOL, RANKING_PROTOCOLS, find_protocol


def test_the_paper_protocol_holds_out_a_fifth_and_flatters_every_model() -> None:
    data = make_demo_world(0, n_users=200).dataset
    ours, paper = find_protocol(DEFAULT_PROTOCOL), find_protocol("attrcloak2025")
    split = paper.split_interactions(data)
    assert len(split.test) / len(data) == pytest.approx(0.2, abs=0.03)
    assert len(ours.split_interactions(data).test) == data.n_users
    np.testing.assert_array_equal(split.test.item, paper.split_interactions(data).test.item)
    popularity = np.bincount(split.train.item, minlength=data.n_items).astype(np.float64)

    def score(users: np.ndarray) -> np.ndarray:
        return np.tile(popularity, (len(users), 1))

    sampled = paper.measure(paper.rank_test_items(score, split, split))
    whole = ours.measure(ours.rank_test_items(score, split, split))
    assert sampled["ndcg@10"].value > 1.5 * whole["ndcg@10"].value
    assert set(sampled) - set(whole) == {
        f"{name}@{k}" for name in ("capped_recall", "full_ndcg") for k in (5, 10, 15, 20)
    }
    assert paper.ranking_note


def test_an_unknown_protocol_is_an_error_with_the_nearest_match() -> None:
    assert list(RANKING_PROTOCOLS)[0] == DEFAULT_PROTOCOL
    with pytest.raises(UsageError, match="Did you mean 'attrcloak2025'"):
        find_protocol("attrcloak2024")
