"""Numbers as labels: their order, normal scores and quantile classes; NaN is undisclosed."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.defenses.embeddings.number_labels import compute_number_scores, cut_into_quantiles, encode_numbers


def test_codes_are_places_among_the_numbers_of_a_column() -> None:
    y = np.array([[30.5, -1], [np.nan, 4], [18, None], [30.5, -1]], dtype=object)
    np.testing.assert_array_equal(encode_numbers(y, 4), [[1, 0], [-1, 1], [0, -1], [1, 0]])


@pytest.mark.parametrize("y", [["old", "young"], [1.0], [np.inf, 1.0], np.ones((2, 1, 1))])
def test_what_is_no_finite_number_for_each_user_is_refused(y: object) -> None:
    with pytest.raises(DataError, match="numbers|finite number"):
        encode_numbers(y, 2)  # type: ignore[arg-type]


def test_scores_are_normal_and_centered_and_zero_for_undisclosed_users() -> None:
    codes = np.array([-1, *range(100), -1])
    scores = compute_number_scores(codes)
    np.testing.assert_array_equal(scores[codes < 0], 0)
    np.testing.assert_allclose(scores[1:-1].mean(0), 0, atol=1e-12)
    assert (np.diff(scores[1:-1, 0]) > 0).all()
    assert not compute_number_scores(np.array([-1, -1])).any()


def test_quantile_classes_are_of_about_equal_size_and_equal_numbers_stay_together() -> None:
    codes = np.array([0, 1, 2, 3, 4, 5, 6, 7, -1])[:, None]
    np.testing.assert_array_equal(cut_into_quantiles(codes, 4)[:, 0], [0, 0, 1, 1, 2, 2, 3, 3, -1])
    np.testing.assert_array_equal(np.unique(cut_into_quantiles(np.full((9, 1), 3), 4)), [2])
