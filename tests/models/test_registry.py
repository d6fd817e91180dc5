from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import recveil.models
from recveil.core.protocols import FoldInRecommender
from recveil.models import MODELS

FOLDER = Path(recveil.models.__file__).parent
MODULES = {
    path.stem: import_module(f"recveil.models.{path.stem}")
    for path in sorted(FOLDER.glob("*.py"))
    if path.stem != "__init__" and "\nMETHODS" in path.read_text(encoding="utf-8")
}


def test_the_registry_holds_the_models_of_all_files() -> None:
    declared = [traits for module in MODULES.values() for traits in module.METHODS]
    assert list(MODELS) == sorted(traits.name for traits in declared)
    assert len(declared) == len(MODULES) == 13
    # The registry adds the summary from the docstring; all else is read as it is declared.
    read = {traits.name: traits for traits in MODELS.all_traits()}
    assert all(replace(read[traits.name], summary="") == traits for traits in declared)
    assert all(traits.summary and traits.paper for traits in read.values())


@pytest.mark.parametrize("name", list(MODELS))
def test_traits_agree_with_the_model(name: str) -> None:
    assert MODELS.load(name).__module__ == f"recveil.models.{name.replace('-', '_')}"
    model = MODELS.make(name)
    assert isinstance(model, FoldInRecommender)
    assert model.epochs >= 1
    assert model.history_ is None


def test_listing_models_imports_no_torch() -> None:
    code = "import sys; from recveil.models import MODELS; print(len(MODELS.all_traits()), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(list(MODELS))), "False"]
