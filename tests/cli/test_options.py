from __future__ import annotations

from dataclasses import dataclass

import pytest
import typer
from typer.testing import CliRunner

from recveil.cli.options import CommonOptions, Strength, parse_bins, parse_names, parse_options, takes
from recveil.core.errors import UsageError


def test_names_are_separated_by_commas() -> None:
    assert parse_names(" gender, age ,") == ["gender", "age"]
    assert parse_names("") == []


def test_bins_are_edges_by_column() -> None:
    assert parse_bins(["age=35,45"]) == {"age": [35.0, 45.0]}
    assert parse_bins(None) == {}
    with pytest.raises(UsageError, match="name=edge,edge"):
        parse_bins(["age=young"])


def test_options_are_values_and_never_code() -> None:
    parsed = parse_options(["epochs=5", "reg=1e-3", "layers=[32, 16]", "loss=squared", "x=__import__('os')"])
    assert parsed == {"epochs": 5, "reg": 1e-3, "layers": [32, 16], "loss": "squared", "x": "__import__('os')"}
    with pytest.raises(UsageError, match="name=value"):
        parse_options(["epochs"])


@dataclass(frozen=True, kw_only=True)
class ToyOptions(CommonOptions):
    """Options of a toy."""

    strength: Strength = 1.0


def test_a_command_receives_its_options_as_one_object_and_errors_name_them() -> None:
    app, received = typer.Typer(), []

    @app.command()
    @takes(ToyOptions)
    def toy(options: ToyOptions) -> None:
        received.append(options)
        if options.strength > 1:
            raise UsageError("`strength` is too large; `other` stays as it is.")

    assert CliRunner().invoke(app, ["--strength", "0.5", "--seed", "3", "-q"]).exit_code == 0
    assert received == [ToyOptions(strength=0.5, seed=3, quiet=True)]
    assert received[0].is_silent
    done = CliRunner().invoke(app, ["--strength", "2"])
    assert done.exit_code == 2
    assert done.stderr == "recveil: --strength is too large; `other` stays as it is.\n"
    for value in ("nan", "-inf", "1e400"):
        done = CliRunner().invoke(app, ["--strength", value])
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert "--strength is" in done.stderr
    done = CliRunner().invoke(app, ["--seed", "9" * 25])
    assert done.exit_code == 2
    assert done.stderr == "recveil: --seed is too large. It should be less than or equal to 4294967295.\n"
    assert len(received) == 2
