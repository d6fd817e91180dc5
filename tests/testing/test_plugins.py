"""Methods of another package: found by entry points, listed, run by the commands, and served by the contracts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recveil.attacks.attribute import ATTRIBUTE_ATTACKS
from recveil.attacks.attribute.panels import make_attack, panel_members, parse_attackers
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.cli.app import app
from recveil.defenses import DEFENSES
from recveil.models import MODELS
from recveil.testing.contracts import check_attack, check_embedding_defense
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_planted_leak

pytestmark = pytest.mark.usefixtures("quick_self_check")

ENTRY_POINTS = """
[recveil.defenses]
toy = toy_package.defense
broken-defense = toy_package.no_such_module

[recveil.attacks]
toy = toy_package.attack
toy-classifier = toy_package.attack:ToyClassifier
broken-attack = toy_package.broken:Attack

[recveil.models]
toy = toy_package.model
"""
REGISTRIES = (ATTRIBUTE_ATTACKS, DEFENSES, MODELS)


def forget_methods() -> None:
    """Let the registries read the entry points again."""
    invalidate_caches()
    for registry in REGISTRIES:
        vars(registry).pop("_entries", None)
    for module in [name for name in sys.modules if name.split(".")[0] == "toy_package"]:
        del sys.modules[module]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the toy package is installed."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(Path(__file__).parent / "toy_package", folder / "toy_package")
    info = folder / "toy_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The toy package in this process, and the warnings about its broken entry points."""
    with monkeypatch.context() as patched, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patched.syspath_prepend(site)
        forget_methods()
        assert all(list(registry) for registry in REGISTRIES)
        yield [str(warning.message) for warning in caught]
    forget_methods()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a leaky table and its attributes, and the place where commands run."""
    x, secret = make_planted_leak(300, 4, 2, 3.0, rng=np.random.default_rng(0))
    ids = np.arange(300) + 7
    pq.write_table(pa.table({"user_id": ids, "embedding": list(x)}), tmp_path / "users.parquet")
    pq.write_table(pa.table({"user_id": ids, "gender": secret.codes.astype(str)}), tmp_path / "attributes.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


FILES = ("--embeddings", "users.parquet", "--attributes", "attributes.parquet", "--target", "gender")
QUICK = ("--folds", "3", "--seeds", "1", "--json")


def run_command(*arguments: str) -> dict[str, dict[str, dict[str, str]]]:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, f"{done.stderr}{done.exception!r}"
    document: dict[str, dict[str, dict[str, str]]] = json.loads(done.stdout)
    return document


@pytest.mark.thorough
def test_the_list_of_methods_names_them_and_warns_of_broken_entry_points(site: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}
    command = [sys.executable, "-m", "recveil", "list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert "toy-defense" in listed["defenses"]
    assert {"toy-attack", "toy-classifier"} <= listed["attacks"].keys()
    assert "toy-model" in listed["models"]
    assert "mean of each class" in listed["defenses"]["toy-defense"]  # the first line of its docstring
    assert "broken-defense" in done.stderr
    assert "broken-attack" in done.stderr


def test_broken_entry_points_are_named_and_skipped(installed: list[str]) -> None:
    assert len(installed) == 2
    assert any("broken-attack" in warning and "a package of mine is missing" in warning for warning in installed)
    assert any("broken-defense" in warning for warning in installed)
    assert {"toy-attack", "toy-classifier", "logistic"} <= set(ATTRIBUTE_ATTACKS)
    assert {"toy-defense", "sliced"} <= set(DEFENSES)


def test_the_contracts_serve_methods_of_other_packages(installed: list[str]) -> None:
    check_embedding_defense(DEFENSES.load("toy-defense"))
    check_recommender(MODELS.load("toy-model"))
    check_attack(lambda: make_attack("toy-attack"))
    check_attack(ATTRIBUTE_ATTACKS.load("toy-classifier"))  # a scikit-learn class as it is


def test_attacks_form_a_panel_and_are_named_between_commas(installed: list[str]) -> None:
    assert panel_members("toy") == ("toy-attack", "toy-classifier")
    x, secret = make_planted_leak(300, 4, 3, 3.0, rng=np.random.default_rng(0))
    attacks = parse_attackers("toy-classifier,toy-attack")
    result = audit_attribute(x, secret, attacks, rules=CrossValidation(folds=3, repeats=1))
    assert list(result.attacks) == ["toy-classifier", "toy-attack"]
    assert result.verdict == "leak"


def test_the_audit_command_runs_a_panel_of_another_package(installed: list[str], files: Path) -> None:
    document = run_command("audit", *FILES, "--panel", "toy", *QUICK)
    assert document["targets"]["gender"]["verdict"] == "leak"
    assert list(document["targets"]["gender"]["attacks"]) == ["toy-attack", "toy-classifier"]


@pytest.mark.thorough
def test_the_cloak_command_runs_a_defense_of_another_package(installed: list[str], files: Path) -> None:
    run_command("cloak", *FILES, "--method", "toy-defense", "--panel", "toy", "--out", "safe.parquet", *QUICK)
    x, safe = (
        np.stack(pq.read_table(files / name)["embedding"].to_numpy()) for name in ("users.parquet", "safe.parquet")
    )
    codes = pq.read_table(files / "attributes.parquet")["gender"].to_numpy().astype(np.int64)
    np.testing.assert_allclose(safe, DEFENSES.make("toy-defense")(x, codes, rng=np.random.default_rng(0)), atol=1e-5)


@pytest.mark.thorough
def test_the_train_command_trains_a_model_of_another_package(installed: list[str], files: Path) -> None:
    document = run_command("train", "--data", "demo", "--model", "toy-model", "--out", "run", "--json")
    assert "utility" in document
    assert (files / "run").is_dir()
