"""`recveil tune`: one sentence for mistakes, the printed frontier and choice, and a real search."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recveil.cli.app import app
from recveil.core.results import TuneResult
from recveil.core.study_parts import TunedAudit, TuningTrial
from recveil.studies import tuning

MODEL = ("--data", "demo", "--option", "embedding_size=8", "--option", "epochs=2")
TINY = (*MODEL, "--target", "gender", "--panel", "logistic", "--workers", "1")


def run(*words):
    return CliRunner().invoke(app, ["tune", *map(str, words)])


def test_a_defense_without_options_and_a_wrong_engine_are_one_sentence(tmp_path) -> None:
    wrong = run(*TINY, "--defense", "popularity", "--out", tmp_path / "t")
    assert wrong.exit_code == 2
    assert "No defense with options to tune" in wrong.stderr
    assert run(*TINY, "--defense", "noise", "--engine", "spark", "--out", tmp_path / "t").exit_code == 2
    assert not (tmp_path / "t").exists()


def test_the_frontier_the_choice_and_its_use_are_printed(tmp_path, monkeypatch) -> None:
    undefended = TuningTrial(options={}, advantage=0.6, loss=0.0, cell="a", defended=False)
    chosen = TuningTrial(options={"scale": 0.5}, advantage=0.1, loss=2.0, cell="b", defended=True)
    names = {"data": "demo", "model": "bprmf", "defense": "noise", "target": "gender", "panel": "fast"}
    trials = {"trials": [undefended, chosen], "frontier": [undefended, chosen]}
    result = TuneResult(
        **names,
        **trials,
        budget=3.0,
        seed=0,
        chosen=chosen,
        use="recveil train",
        audit=TunedAudit(lines={}, advice=["demo: use noise."], errors=[]),
    )
    monkeypatch.setattr(tuning, "tune", lambda *_, **__: result)
    out = tmp_path / "t"
    out.mkdir()
    printed = run(*TINY, "--defense", "noise", "--out", out)
    assert printed.exit_code == 0
    assert "0.100                 2.0  noise (scale 0.5)" in printed.stdout
    assert "chosen for at most 3 %: noise (scale 0.5)" in printed.stdout
    assert "use it: recveil train" in printed.stdout
    assert TuneResult.read_json(out / "tune.json") == result
    assert (out / "frontier.svg").read_text().startswith("<svg")
    nothing = result.model_copy(update={"chosen": None, "audit": None, "use": None})
    monkeypatch.setattr(tuning, "tune", lambda *_, **__: nothing)
    printed = run(*TINY, "--defense", "noise", "--out", out)
    assert "No setting that was tried stays within 3 %. The cheapest loses 2.0 %." in printed.stdout


@pytest.mark.slow
def test_a_real_search_goes_on_where_it_stopped_and_is_audited_on_other_users(tmp_path: Path) -> None:
    words = (*TINY, "--defense", "noise", "--budget", "10", "--out", tmp_path / "t", "--json")
    first = json.loads(run(*words, "--trials", "2", "--batch", "2").stdout)
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "t" / "cells").iterdir()}
    second = json.loads(run(*words, "--trials", "4", "--batch", "2").stdout)
    after = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "t" / "cells").iterdir()}
    assert second["trials"][:4] == first["trials"]
    assert all(after[name] == when for name, when in before.items())
    assert second["chosen"]["loss"] <= 10
    n = second["audit"]["lines"]["noise"]["targets"]["gender"]["advantage"]["n"]
    assert n == 2400  # the fifth of 3,000 users that the search chose by is not among them
