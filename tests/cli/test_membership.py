"""`recveil membership`: exit codes, one sentence for wrong use and bad data, nothing half-written."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from recveil.cli.app import app
from recveil.core.results import MembershipResult

DEMO = ("--data", "demo", "--attacks", "rules", "--option", "epochs=1", "--option", "embedding_size=4", "--k", "20")
FILES = tuple(
    word
    for side in ("target", "shadow")
    for what in ("histories", "lists", "members")
    for word in (f"--{side}-{what}", f"{side}-{what}.csv")
)


def run(*args: object, cwd: Path) -> Result:
    with contextlib.chdir(cwd):
        result = CliRunner().invoke(app, ["membership", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Sixty users a side; members are listed items like those of their history, non-members items of all kinds."""
    rng = np.random.default_rng(0)
    for first, side in ((0, "target"), (1000, "shadow")):
        rows: dict[str, list[str]] = {"histories": ["user_id,item_id"], "lists": ["user_id,item_id,rank"]}
        rows["members"] = ["user_id,member"]
        for user in range(first, first + 60):
            member, kind = user % 2, rng.integers(4)
            own = rng.permutation(np.arange(100)[np.arange(100) % 4 == kind])
            listed = own[12:20] if member else rng.permutation(100)[:8]
            rows["histories"] += [f"{user},{i}" for i in own[:12]]
            rows["lists"] += [f"{user},{i},{place + 1}" for place, i in enumerate(listed)]
            rows["members"].append(f"{user},{member}")
        for name, lines in rows.items():
            (tmp_path / f"{side}-{name}.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "texts.csv").write_text("item_id,text\n" + "".join(f"{i},kind{i % 4}\n" for i in range(100)))
    return tmp_path


@pytest.mark.thorough
def test_attacks_with_reference_models(tmp_path: Path) -> None:
    asked = (*DEMO[:3], "lira,rmia", *DEMO[4:], "--references", "4", "--json")
    done = run(*asked, cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    result = MembershipResult.model_validate_json(done.stdout)
    assert {"lira", "rmia"} < set(result.attacks)
    assert result.protocol.references is not None
    assert result.protocol.references.n == 4
    for more, message in (
        (("--references", "5"), "An even number of 4 or more is needed"),
        (("--serving", "popular"), "by fold-in"),
        (("--defense", "popularity"), "has no effect on them"),
    ):
        refused = run(*asked, *more, cwd=tmp_path)
        assert refused.exit_code == 2
        assert message in refused.stderr.replace("\n", " ")


@pytest.mark.thorough
def test_on_a_model_trained_here(tmp_path: Path) -> None:
    done = run(*DEMO, "--report", "r.html", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    for name in ("any-overlap", "popular-list", "history-length"):
        assert name in done.stdout
    assert "882 users, 441 of them members" in done.stdout
    assert "Left out: 353 users" in done.stderr
    page = (tmp_path / "r.html").read_text()
    assert "<svg" in page
    assert "any-overlap" in page


def test_the_flawed_rule_of_published_benchmarks_is_explained_by_a_rule(tmp_path: Path) -> None:
    result = MembershipResult.model_validate_json(run(*DEMO, "--seen", "paper", "--json", cwd=tmp_path).stdout)
    assert result.attacks["any-overlap"].auc.value > 0.95
    assert result.verdict == "explained"
    assert result.input.serving is not None
    assert result.input.serving.model_dump() == {"nonmembers": "fold-in", "seen": "paper", "k": 20}


@pytest.mark.thorough
def test_the_cost_of_a_defense_is_printed(tmp_path: Path) -> None:
    done = run(*DEMO, "--serving", "popular", "--defense", "popularity", "--pool", "200", cwd=tmp_path)
    assert done.exit_code == 0, done.stderr
    first_words = [line.split()[0] for line in done.stdout.splitlines()]
    assert first_words[-1] == "advice"
    assert [word for word in first_words if word != "advice"][-4:] == ["before", "static", "after", "cost"]


def test_on_files_with_texts_the_attack_is_ahead_of_the_rules(files: Path) -> None:
    done = run(*FILES, "--item-texts", "texts.csv", "--attacks", "biased", "--json", cwd=files)
    assert done.exit_code == 0, done.stderr
    result = MembershipResult.model_validate_json(done.stdout)
    assert result.verdict == "leak"
    assert result.attacks["biased"].auc.low > 0.8
    assert result.attacks["biased"].tpr_at_fpr["0.01"] is None
    assert result.input.item_vectors == "texts, hashed"


@pytest.mark.parametrize(
    ("gate", "code"),
    [("biased.auc.low > 0.8", 1), ("biased.auc.low > 0.999", 0), ("biased.tpr_at_fpr.0.01.low > 0.1", 4)],
)
def test_gates(files: Path, gate: str, code: int) -> None:
    asked = ("--item-texts", "texts.csv", "--attacks", "biased", "--fail-if", gate, "--quiet")
    done = run(*FILES, *asked, cwd=files)
    assert done.exit_code == code, done.stderr
    assert done.stdout == ""


def test_without_target_members_there_are_scores_and_no_verdict(files: Path) -> None:
    unknown = [w for w in FILES if not w.startswith(("--target-members", "target-members"))]
    asked = (*unknown, "--item-texts", "texts.csv", "--attacks", "shadowfree")
    done = run(*asked, "--scores-out", "s.csv", "--report", "r.html", cwd=files)
    assert done.exit_code == 0, done.stderr
    assert "scores of its users and no verdict" in done.stdout
    lines = (files / "s.csv").read_text().splitlines()
    assert lines[0].startswith('"user_id",')
    assert "member" not in lines[0]
    assert len(lines) == 61
    assert "Scores only" in (files / "r.html").read_text()
    refused = run(*asked, "--fail-if", "shadowfree.auc.low > 0.6", cwd=files)
    assert refused.exit_code == 2
    assert "--target-members" in refused.stderr


def test_items_without_a_vector_are_counted_in_a_note(files: Path) -> None:
    (files / "texts.csv").write_text("item_id,text\n" + "".join(f"{i},kind{i % 4}\n" for i in range(90)))
    done = run(*FILES, "--item-texts", "texts.csv", "--attacks", "shadowfree", cwd=files)
    assert done.exit_code == 0, done.stderr
    assert "have no item vector and were left out" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("target-histories.csv", "user_id,item_id\n", "has no rows"),
        ("target-histories.csv", "user_id,item_id\n0,1\n", "have a list in target-lists.csv and no history"),
        ("target-members.csv", "user_id\n" + "\n".join(map(str, range(60))), "All of the 60 users of the target are"),
        ("shadow-members.csv", "user_id,member\n" + "\n".join(f"{u},0" for u in range(1000, 1060)), "None of the 60"),
        ("texts.csv", "item_id,text\n500,x\n", "texts.csv holds the text of none"),
    ],
)
def test_bad_files_are_one_sentence_and_nothing_is_written(files: Path, name: str, text: str, message: str) -> None:
    (files / name).write_text(text)
    before = sorted(files.iterdir())
    done = run(*FILES, "--item-texts", "texts.csv", "--report", "r.html", "--out", "d.json", cwd=files)
    assert done.exit_code == 3
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(files.iterdir()) == before


def test_users_on_both_sides_are_refused(files: Path) -> None:
    same = [w.replace("shadow-", "target-") if w.endswith(".csv") else w for w in FILES]
    done = run(*same, cwd=files)
    assert done.exit_code == 3
    assert "60 users are in both shadow and target" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "missing: --target-histories"),
        (("--data", "demo", *FILES), "not both"),
        ((*FILES, "--defense", "popularity"), "--defense needs a model that is trained here"),
        ((*DEMO, "--k", "801"), "Use a --k of at most"),
        ((*DEMO, "--model", "alz"), "Did you mean 'als'"),
        ((*DEMO, "--defense", "popularty"), "Did you mean 'popularity'"),
        ((*DEMO, "--serving", "folded"), "Known: fold-in, fold-in-all, popular"),
        ((*DEMO, "--defense", "popularity", "--pool", "5"), "cannot be drawn from a pool of 5"),
        ((*DEMO, "--fail-if", "popularlist.auc.low > 0.6"), "Did you mean 'popular-list'"),
    ],
)
def test_wrong_use_is_one_sentence(files: Path, args: tuple[str, ...], message: str) -> None:
    done = run(*args, "--out", "d.json", cwd=files)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (files / "d.json").exists()


def test_the_help_shows_examples() -> None:
    done = CliRunner().invoke(app, ["membership", "--help"])
    assert "recveilmembership--dataml-1m--modelncf--shadow-modellfm" in "".join(done.stdout.split())
