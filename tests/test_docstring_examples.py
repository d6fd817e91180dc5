"""Examples in the docstrings of public names run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import types

import pytest

import recveil

WITHOUT_EXAMPLE = {"load_dataset", "log_to_mlflow", "log_to_wandb", "membership"}
"""Functions that need a data set, a service, or more than a few seconds; pages show them."""


def list_examples(name: str) -> list[doctest.DocTest]:
    value = getattr(recveil, name)
    return doctest.DocTestFinder(recurse=False).find(value, name, module=importlib.import_module(value.__module__))


def needs_example(name: str) -> bool:
    value = getattr(recveil, name)
    return isinstance(value, types.FunctionType) or hasattr(value, "transform")


NAMES = [name for name in recveil.__all__ if needs_example(name) and name not in WITHOUT_EXAMPLE]


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_runs(name: str) -> None:
    tests = [test for test in list_examples(name) if test.examples]
    assert tests, f"{name} has no example"
    for test in tests:
        outcome = doctest.DocTestRunner(verbose=False).run(test)
        assert outcome.failed == 0
