"""`recveil study report` and `recveil study reproduction`."""

import json

import pytest
from typer.testing import CliRunner

from recveil.cli.app import app
from recveil.studies.plans import Plan

LEAKS = {"none": (0.6, 0.5), "sliced": (0.0, 0.48)}


@pytest.fixture
def study(fill_store):
    grid = {"data": ["demo"], "model": ["bprmf"], "defense": list(LEAKS), "target": ["gender"], "seed": [0, 1]}
    return fill_store(Plan.parse({"title": "T", "kind": "attribute", "grid": grid}, name="p"), LEAKS, name="studies/p")


def run(*words):
    return CliRunner().invoke(app, ["study", *map(str, words)])


def test_a_report_goes_into_a_file_and_the_advice_to_the_terminal(study, tmp_path) -> None:
    result = run("report", study.folder, "--out", tmp_path / "r.html")
    assert result.exit_code == 0
    assert "use 'sliced'" in result.stdout
    assert "<svg" in (tmp_path / "r.html").read_text()


def test_other_forms_go_to_standard_output(study) -> None:
    assert run("report", study.folder, "--format", "md").stdout.startswith("# T")
    assert run("report", study.folder, "--format", "csv").stdout.startswith("table,row,column")
    assert r"\toprule" in run("report", study.folder, "--format", "latex").stdout
    document = json.loads(run("report", study.folder, "--json").stdout)
    assert document["cells"]["done"] == 4


def test_charts_become_files_that_the_page_shows(study, tmp_path) -> None:
    words = ("report", study.folder, "--out", tmp_path / "r.md", "--figures", tmp_path / "pictures")
    assert run(*words).exit_code == 0
    [path] = (tmp_path / "pictures").iterdir()
    assert path.read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert f"](pictures/{path.name})" in (tmp_path / "r.md").read_text()
    (tmp_path / "file").touch()
    assert run("report", study.folder, "--figures", tmp_path / "file").exit_code == 2


def test_mistakes_are_usage_errors(study, tmp_path) -> None:
    assert run("report", tmp_path).exit_code == 2
    assert run("report", study.folder, "--format", "pdf").exit_code == 2
    assert run("report", study.folder, "--out", tmp_path / "r.pdf").exit_code == 2
    assert run("report", study.folder, "--out", tmp_path).exit_code == 2
    assert run("reproduction", tmp_path, "--results", tmp_path).exit_code == 2


def test_reproduction_is_a_page_or_rows(study, tmp_path) -> None:
    papers = tmp_path / "papers"
    papers.mkdir()
    place = {"data": "demo", "model": "bprmf", "defense": "none", "target": "gender", "attack": "logistic"}
    number = ", ".join(f"{key} = '{value}'" for key, value in place.items())
    number = f"{{ {number}, metric = 'balanced_accuracy', value = 0.8 }}"
    grid = {"data": ["demo"], "model": ["bprmf"], "defense": list(LEAKS), "target": ["gender"], "seed": [0, 1]}
    lines = "".join(f"grid.{key} = {json.dumps(values)}\n" for key, values in grid.items())
    (papers / "x_table1.toml").write_text(f"title = 'T'\nkind = 'attribute'\n{lines}published = [{number}]\n")
    words = ("reproduction", papers, "--results", tmp_path / "studies")
    assert "| reproduced |" in run(*words).stdout
    (row,) = json.loads(run(*words, "--json").stdout)
    assert (row["verdict"], row["seeds"], row["value"]) == ("reproduced", 2, 0.8)
    (papers / "y_table1.toml").write_text(f"title = 'Of another'\nkind = 'attribute'\n{lines}published = [{number}]\n")
    page = run(*words, "--paper", "x").stdout
    assert "--paper x > research/reproduction/x.md" in page
    assert "Of another" not in page
    assert "Of another" in run(*words).stdout
    wrong = run(*words, "--paper", "z")
    assert (wrong.exit_code, "Known: x, y" in wrong.stderr) == (2, True)
    (tmp_path / "old.md").write_text(page)
    (tmp_path / "none").mkdir()
    words = ("reproduction", papers, "--results", tmp_path / "none", "--paper", "x", "--earlier")
    again = run(*words, f"2026-01-01={tmp_path / 'old.md'}").stdout
    assert "| 2 | 2026-01-01 | reproduced |" in again
    assert run(*words, "old.md").exit_code == 2
