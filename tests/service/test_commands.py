"""The command that repeats a job."""

from __future__ import annotations

import shlex

from recveil.service.commands import build_command
from recveil.service.documents import ColumnChoice, JobOptions, TableRecord


def make_record(**fields: object) -> TableRecord:
    plain = {"id": "0", "label": "my users.parquet", "created": "", "n_bytes": 1}
    return TableRecord.model_validate({**plain, **fields})


def test_an_audit_names_its_files_and_options() -> None:
    command = build_command("audit", make_record(), JobOptions(target=["gender", "age"], panel="strong", seed=3))
    words = shlex.split(command)
    assert words[:2] == ["recveil", "audit"]
    pairs = dict(zip(words[2::2], words[3::2], strict=True))
    assert pairs["--embeddings"] == pairs["--attributes"] == "my users.parquet"
    assert (pairs["--target"], pairs["--panel"], pairs["--seed"]) == ("gender,age", "strong", "3")


def test_a_cloak_names_its_defense_and_chosen_columns() -> None:
    record = make_record(attributes_label="a.csv", columns=ColumnChoice(id="customer", vectors=["x", "y"]))
    command = build_command("cloak", record, JobOptions(method="gaussian", strength=0.75, frontier=True))
    assert "--id customer --vectors x,y" in command
    assert "--method gaussian --strength 0.75 --frontier --out 'cloaked-my users.parquet'" in command
    assert "--attributes a.csv" in command
