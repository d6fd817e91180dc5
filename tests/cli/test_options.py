import pytest

from recveil.cli.options import bins_of, names, options_of
from recveil.core.errors import UsageError


def test_names_are_cut_at_commas() -> None:
    assert names(" gender, age ,") == ["gender", "age"]
    assert names("") == []


def test_bins_are_edges_by_column() -> None:
    assert bins_of(["age=35,45"]) == {"age": [35.0, 45.0]}
    with pytest.raises(UsageError, match="name=edge,edge"):
        bins_of(["age=young"])


def test_options_are_values_and_never_code() -> None:
    given = options_of(["epochs=5", "reg=1e-3", "layers=[32, 16]", "loss=squared", "x=__import__('os')"])
    assert given == {"epochs": 5, "reg": 1e-3, "layers": [32, 16], "loss": "squared", "x": "__import__('os')"}
    with pytest.raises(UsageError, match="name=value"):
        options_of(["epochs"])
