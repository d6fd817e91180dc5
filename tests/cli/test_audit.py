"""`recveil audit`: one document on stdout, words for people, files for CI, and exit codes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.results import AuditResult

# One attacker, three folds, one repeat: the statistics are tested elsewhere, here it is the command.
FILES = ("--embeddings", "E.parquet", "--attributes", "A.parquet")
QUICK = ("--panel", "logistic", "--folds", "3", "--seeds", "1", "--max-repeats", "1")
AUDIT = ("audit", *FILES, "--target", "gender", "--panel", "logistic", "--folds", "3", "--seeds", "1")


@pytest.mark.thorough
def test_a_process_prints_one_json_document(tables: Path, recveil_process: Callable) -> None:
    done = recveil_process(*AUDIT, "--json", "--curve", cwd=tables)
    assert done.returncode == 0, done.stderr
    result = AuditResult.model_validate_json(done.stdout)
    gender = result.targets["gender"]
    assert (gender.verdict, gender.chance) == ("leak", 0.5)
    assert result.command_line[1:] == list(map(str, (*AUDIT, "--json", "--curve")))
    for estimate in (gender.headline.balanced_accuracy, gender.headline.advantage, gender.attacks["logistic"].auc):
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.n == 400
    assert [point.ratio for point in gender.curve] == [0.2, 0.4, 0.6, 0.6667]
    assert [picture.label for picture in gender.leak_map.classes] == ["F", "M"]


@pytest.mark.thorough
def test_an_audit_in_words_and_with_a_report(tables: Path, recveil: Callable) -> None:
    done = recveil(*AUDIT, "--report", "not/yet/out.html", "--out", "nor/this/out.json", cwd=tables)
    assert done.returncode == 0, done.stderr
    result = AuditResult.read_json(tables / "nor" / "this" / "out.json")
    assert result.targets["gender"].sentence in done.stdout
    page = (tables / "not" / "yet" / "out.html").read_text()
    assert "gender" in page
    ids = pq.read_table(tables / "E.parquet")["user_id"].to_pylist()
    assert not [user for user in ids[:50] if f">{user}<" in page]  # no user is on the page
    quiet = recveil(*AUDIT, "--quiet", cwd=tables)
    assert (quiet.stdout, quiet.stderr) == ("", "")


@pytest.mark.thorough
def test_a_number_is_audited_by_regression_and_cannot_be_cloaked(
    tables: Path, recveil: Callable, write_attributes: Callable
) -> None:
    x = np.stack(pq.read_table(tables / "E.parquet")["embedding"].to_numpy(zero_copy_only=False))
    age = 40 + x[:, 0] + np.random.default_rng(0).normal(size=400)
    write_attributes(gender=["F", "M"] * 200, age=age)
    numeric = ("--target", "gender,age", "--numeric", "age")
    done = recveil(*AUDIT, *numeric, "--json", "--fail-if", "age.r2.low > 0.2", cwd=tables)
    assert done.returncode == 1, done.stderr
    targets = AuditResult.model_validate_json(done.stdout).targets
    assert targets["gender"].verdict != "leak"
    assert targets["age"].verdict == "leak"
    assert 0.5 < targets["age"].headline.r2.low < targets["age"].headline.r2.value < 1
    refused = recveil("cloak", *FILES, "--target", "age", "--numeric", "age", "--out", "C.parquet", cwd=tables)
    assert refused.returncode == 3
    assert "'age' is a number" in refused.stderr


def test_ci_gets_its_files_and_the_last_release_is_not_undercut(tables: Path, recveil: Callable) -> None:
    leaky = recveil(*AUDIT, "--out", "now.json", "--junit", "ci/j.xml", "--sarif", "ci/s.json", cwd=tables)
    assert leaky.returncode == 0, leaky.stderr
    assert 'failures="0"' in (tables / "ci" / "j.xml").read_text()  # nobody set a gate
    assert json.loads((tables / "ci" / "s.json").read_text())["runs"][0]["results"][0]["ruleId"] == "attribute-leak"
    gated = recveil(*AUDIT, "--fail-if", "gender.advantage.low > 0.05", "--baseline", "now.json", cwd=tables)
    assert gated.returncode == 1
    assert "gate failed" in gated.stderr
    assert "baseline, no worse" in gated.stderr
    itself = recveil(*AUDIT, "--baseline", "now.json", cwd=tables)
    assert itself.returncode == 0, itself.stderr
    before = json.loads((tables / "now.json").read_text())
    before["targets"]["gender"]["headline"]["advantage"] = {"value": 0.01, "low": 0.0, "high": 0.02, "n": 400}
    before["targets"]["gender"]["verdict"] = "none"
    (tables / "then.json").write_text(json.dumps(before))
    worse = recveil(*AUDIT, "--baseline", "then.json", "--junit", "w.xml", cwd=tables)
    assert worse.returncode == 1
    assert "baseline, worse" in worse.stderr
    assert 'failures="1"' in (tables / "w.xml").read_text()
    (tables / "old.json").write_text(json.dumps({**before, "schema_version": 1}))
    old = recveil(*AUDIT, "--baseline", "old.json", cwd=tables)
    assert old.returncode == 3
    assert "Run the audit of the last release again" in old.stderr


def test_outputs_that_are_inputs_or_no_files_are_refused_before_the_work(tables: Path, recveil: Callable) -> None:
    os.mkfifo(tables / "pipe")
    (tables / "last.json").write_text("{}")
    (tables / "soft.json").symlink_to("A.parquet")
    os.link(tables / "E.parquet", tables / "hard.parquet")
    before = {path.name: path.lstat() for path in tables.iterdir()}
    for options, sentence in (
        (("--report", "/dev/null"), "/dev/null: it is a device"),
        (("--out", "pipe"), "pipe: it is a device, a pipe"),
        (("--out", "soft.json"), "--out soft.json is --attributes"),
        (("--risk-out", "hard.parquet"), "--risk-out hard.parquet is --embeddings"),
        (("--baseline", "last.json", "--out", "last.json"), "--out last.json is --baseline"),
        (("--junit", "x", "--sarif", "./x"), "--junit and --sarif are the same file"),
    ):
        done = recveil("audit", *FILES, *options, cwd=tables)
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr
    after = {path.name: path.lstat() for path in tables.iterdir()}
    assert {name: (s.st_ino, s.st_mtime_ns, s.st_mode) for name, s in after.items()} == {
        name: (s.st_ino, s.st_mtime_ns, s.st_mode) for name, s in before.items()
    }


def test_a_rehearsal_says_what_a_defense_does_for_undisclosed_users(tables: Path, recveil: Callable) -> None:
    asked = ("audit", *FILES, "--panel", "logistic", "--folds", "3", "--seeds", "1", "--rehearse", "0.3")
    done = recveil(*asked, "--method", "gaussian", "--json", cwd=tables)
    assert done.returncode == 0, done.stderr
    rehearsal = AuditResult.model_validate_json(done.stdout).rehearsal
    assert rehearsal is not None
    assert rehearsal.method == "gaussian"
    assert rehearsal.targets["gender"].n_hidden == 120
    assert recveil(*asked, cwd=tables).returncode == 2
    assert recveil(*asked, "--method", "raid", cwd=tables).returncode == 2


def test_a_table_of_any_names_is_audited_alone(tables: Path, recveil: Callable) -> None:
    table = pq.read_table(tables / "E.parquet").rename_columns(["member", "vector"])
    gender = dict(zip(*pq.read_table(tables / "A.parquet").to_pydict().values(), strict=True))
    classes = [gender[i] if i % 7 else "unspecified" for i in table["member"].to_pylist()]
    pq.write_table(table.append_column("gender", [classes]), tables / "users.parquet")
    names = ("--vectors", "vector", "--id", "member", "--undisclosed", "Unspecified")
    done = recveil("audit", "users.parquet", "--target", "gender", *names, *QUICK, cwd=tables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("An attacker can infer gender")
    assert "next    Do not release this table. Defend it first." in done.stdout
    assert "users labelled 'unspecified' are treated as undisclosed." in done.stderr
    for args, message in [
        (("users.parquet", "--embeddings", "E.parquet"), "Leave one of them out"),
        (("users.parquet", "--vectors", "gender", "--id", "member"), "'gender' of users.parquet does not hold numbers"),
        (("users.parquet", "--vectors", "none", "--id", "member"), "no column 'none'"),
        (("E.parquet",), "holds vectors and no attributes. Name a file"),
    ]:
        refused = recveil("audit", *args, "--target", "gender", *QUICK, cwd=tables)
        assert refused.returncode in (2, 3)
        assert message in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_lists_are_audited_alone(tables: Path, recveil: Callable) -> None:
    users = pq.read_table(tables / "A.parquet").to_pydict()
    rows = [
        {"user_id": user, "item_id": 10 * (gender == "F") + (user + place) % 12, "rank": place + 1}
        for user, gender in zip(users["user_id"], users["gender"], strict=True)
        for place in range(3)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tables / "lists.parquet")
    alone = ("audit", "--recommendations", "lists.parquet", "--attributes", "A.parquet", "--target", "gender", *QUICK)
    done = recveil(*alone, "--json", "--report", "lists.html", cwd=tables)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["protocol"]["surface"] == "lists"
    assert result["targets"]["gender"]["verdict"] == "leak"
    assert result["input"]["name"] == "lists.parquet"
    assert "Released: lists of 400 users" in (tables / "lists.html").read_text()
    refused = recveil(*alone, "--surface", "user_vectors", cwd=tables)
    assert refused.returncode == 3
    assert "needs what this release does not have: user vectors" in refused.stderr
    refused = recveil(*alone, "--before", "E.parquet", cwd=tables)
    assert refused.returncode == 2
