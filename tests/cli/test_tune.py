import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recveil.cli.app import app

TINY = (
    "--data",
    "demo",
    "--option",
    "embedding_size=8",
    "--option",
    "epochs=2",
    "--panel",
    "logistic",
    "--workers",
    "1",
)


def run(*words):
    return CliRunner().invoke(app, ["tune", *map(str, words)])


def test_a_defense_without_knobs_and_a_wrong_engine_are_one_sentence(tmp_path) -> None:
    wrong = run(*TINY, "--defense", "popularity", "--target", "gender", "--out", tmp_path / "t")
    assert wrong.exit_code == 2
    assert "No defense with knobs to tune" in wrong.stderr
    assert (
        run(*TINY, "--defense", "noise", "--target", "gender", "--engine", "spark", "--out", tmp_path / "t").exit_code
        == 2
    )
    assert not (tmp_path / "t").exists()


def test_what_is_printed_names_the_frontier_the_choice_and_how_to_use_it(tmp_path, monkeypatch) -> None:
    from recveil.studies import tuning as search

    trials = [
        {"options": {}, "advantage": 0.6, "loss": 0.0, "cell": "a", "defended": False},
        {"options": {"scale": 0.5}, "advantage": 0.1, "loss": 2.0, "cell": "b", "defended": True},
    ]
    head = {"data": "demo", "model": "bprmf", "defense": "noise", "target": "gender", "budget": 3.0}
    found = {**head, "trials": trials, "frontier": trials, "chosen": trials[1], "use": "recveil train", "failed": 0}
    found["audit"] = {"lines": {}, "advice": ["demo: use noise."], "errors": []}
    monkeypatch.setattr(search, "tune", lambda *_, **__: found)
    out = tmp_path / "t"
    out.mkdir()
    result = run(*TINY, "--defense", "noise", "--target", "gender", "--out", out)
    assert result.exit_code == 0
    assert "0.100                 2.0  noise (scale 0.5)" in result.stdout
    assert "chosen for at most 3 %: noise (scale 0.5)" in result.stdout
    assert "use it: recveil train" in result.stdout
    assert json.loads((out / "tune.json").read_text()) == found
    monkeypatch.setattr(search, "tune", lambda *_, **__: {**found, "chosen": None, "audit": None, "use": None})
    assert (
        "No setting that was tried stays within 3 %. The cheapest loses 2.0 %."
        in run(*TINY, "--defense", "noise", "--target", "gender", "--out", out).stdout
    )


@pytest.mark.slow
def test_a_real_search_goes_on_where_it_stopped_and_is_audited_on_others(tmp_path: Path) -> None:
    words = (*TINY, "--defense", "noise", "--target", "gender", "--budget", "10", "--out", tmp_path / "t", "--json")
    first = json.loads(run(*words, "--trials", "2", "--batch", "2").stdout)
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "t" / "cells").iterdir()}
    second = json.loads(run(*words, "--trials", "4", "--batch", "2").stdout)
    after = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "t" / "cells").iterdir()}
    assert second["trials"][:4] == first["trials"]
    assert all(after[name] == when for name, when in before.items())
    assert second["chosen"]["loss"] <= 10
    n = second["audit"]["lines"]["noise"]["targets"]["gender"]["advantage"]["n"]
    assert n == 2400  # the fifth of 3,000 users that the search chose by is not among them
    assert (tmp_path / "t" / "frontier.svg").read_text().startswith("<svg")
