"""The next command repeats the inputs of the last one."""

from __future__ import annotations

import pytest

from recveil.core.results import AuditResult
from recveil.report.next_command import is_of_lists, write_command

INPUT = "users.parquet --vectors v --undisclosed unknown"
DEFAULT = "--embeddings users.parquet --attributes attributes.parquet"


def write(result: AuditResult, line: str, surface: str = "user_vectors") -> str:
    protocol = result.protocol.model_copy(update={"surface": surface})
    typed = result.model_copy(update={"command_line": line.split(), "protocol": protocol})
    return write_command("cloak", typed, ["gender"]).removeprefix("recveil cloak ").split(" --target ")[0]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"recveil audit {INPUT} --target gender --panel full", INPUT),
        (f"recveil audit --json --target gender {INPUT}", INPUT),
        ("recveil audit --target=gender t.csv --id=user --report r.html", "t.csv --id user"),
        ("recveil audit --embeddings /home/me/E.npy --ids ids.txt --attributes a.csv --seed 3",
         "--embeddings E.npy --ids ids.txt --attributes a.csv"),
        ("recveil audit --run run --target gender", "--run run"),
        ("", DEFAULT),
    ],
)  # fmt: skip
def test_inputs_are_those_that_were_typed(audit_result: AuditResult, line: str, expected: str) -> None:
    assert write(audit_result, line) == expected


def test_lists_are_defended_where_they_are_made(audit_result: AuditResult) -> None:
    line = "recveil audit --recommendations lists.parquet --attributes a.csv --target gender"
    made_of = "--item-embeddings items.parquet --interactions interactions.parquet"
    assert write(audit_result, line, "lists") == f"users.parquet --attributes a.csv {made_of}"
    assert not is_of_lists(audit_result)
