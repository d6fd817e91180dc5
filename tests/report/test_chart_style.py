from hypothesis import given
from hypothesis import strategies as st

from recveil.report.chart_style import CLASS_COLORS, choose_domain


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9))
def test_the_domain_holds_all_numbers_and_has_a_width(numbers: list[float]) -> None:
    low, high = choose_domain([*numbers, None])
    assert low <= min(numbers)
    assert high >= max(numbers)
    assert low < high or numbers == [0.0] * len(numbers)


def test_classes_have_colors_of_their_own() -> None:
    assert len(set(CLASS_COLORS)) == len(CLASS_COLORS)
