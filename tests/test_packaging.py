"""What is installed: the base has what the first commands need, and all recipes name the same packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import recveil

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA_NAMES = {"torch": "pytorch"}


def list_base() -> dict[str, str]:
    pairs = (re.fullmatch(r"([a-z0-9-]+)(>=[0-9.]+)", text) for text in PROJECT["dependencies"])
    return {pair.group(1): pair.group(2) for pair in pairs if pair is not None}


def test_the_base_draws_charts() -> None:
    assert {"altair", "vl-convert-python", "torch", "pyarrow"} <= list_base().keys()
    assert len(list_base()) == len(PROJECT["dependencies"])


def test_the_conda_recipe_names_the_packages_of_the_base() -> None:
    recipe = (ROOT / "packaging" / "conda" / "meta.yaml").read_text()
    run = recipe[recipe.index("  run:") : recipe.index("\ntest:")]
    named = set(re.findall(r"- ([a-z0-9-]+ >=[0-9.]+)", run))
    expected = {f"{CONDA_NAMES.get(name, name)} {bound}" for name, bound in list_base().items()}
    assert named == expected | {f"python {PROJECT['requires-python']}"}
    assert f'version = "{PROJECT["version"]}"' in recipe


def test_extras_that_errors_name_exist() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"recveil\[([a-z0-9]+)\]", text))
    named |= set(re.findall(r'import_extra\("[a-z0-9_]+", "([a-z0-9]+)"', text))
    assert {"hdf5", "sql", "cloud", "ray", "tune", "xgboost"} <= named
    assert named <= PROJECT["optional-dependencies"].keys()


@pytest.mark.skipif("RECVEIL_WHEEL" not in os.environ, reason="only `make wheel-test` tests a wheel")
def test_the_wheel_is_what_these_tests_import(tmp_path: Path) -> None:
    wheel = Path(os.environ["RECVEIL_WHEEL"]).resolve()
    assert wheel in Path(recveil.__file__).resolve().parents
    command = [sys.executable, "-c", "import recveil; print(recveil.__file__)"]
    started = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert wheel in Path(started.stdout.strip()).resolve().parents
    modules = {path.relative_to(wheel) for path in (wheel / "recveil").rglob("*") if "__pycache__" not in path.parts}
    source = ROOT / "src"
    assert modules == {p.relative_to(source) for p in (source / "recveil").rglob("*") if "__pycache__" not in p.parts}


def test_every_place_names_the_same_version() -> None:
    version = PROJECT["version"]
    for path, text in {
        "CITATION.cff": f"version: {version}\n",
        "CHANGELOG.md": f"## [{version}] - ",
        "requirements.lock": f"recveil-{version}-py3",
        "docs/how-to/ci-gate.md": f"@v{version}\n",
    }.items():
        assert text in (ROOT / path).read_text(encoding="utf-8"), path


def test_the_readme_is_short_and_keeps_its_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.count("\n") < 120
    assert "make demo" in readme
    assert "make test" in readme


def test_pictures_are_small_texts_and_links_of_the_readme_lead_somewhere() -> None:
    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert picture.suffix == ".svg"
        assert picture.stat().st_size < 40_000
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "research" / "README.md"]
    broken = [
        f"{page.name}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert not broken, broken
