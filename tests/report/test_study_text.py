from __future__ import annotations

import csv
import io

import pytest

from recveil.core.results import StudyResult
from recveil.core.study_parts import Figure, TableColumn
from recveil.core.types import Estimate
from recveil.report.study_text import format_cell, write_csv, write_latex, write_markdown, write_markdown_table

NAN = float("nan")
COLUMN = TableColumn(key="a", label="a", digits=2, signed=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Estimate(-0.51234, -0.6, -0.4, 100), "−0.51 [−0.60, −0.40]"),
        (Estimate(0.2, NAN, NAN, 1), "+0.20"),
        (Estimate(NAN, NAN, NAN, 1), ""),
        (1.0, "+1.00"),
        ("2 of 3", "2 of 3"),
        (None, ""),
    ],
)
def test_a_cell_is_a_number_with_its_interval_or_what_there_is(value: object, text: str) -> None:
    assert format_cell(value, COLUMN) == text


def test_markdown_has_every_row_and_nothing_in_it_is_markup(study_result: StudyResult) -> None:
    figure = Figure(title="F", path="f.svg")
    text = write_markdown(study_result.model_copy(update={"figures": [figure]}))
    assert "| x\\|y \\<i>bad | −0.51 [−0.60, −0.40] | 2 of 3 |" in text
    assert "| hole |  | 0 of 3 (3 failed) |" in text
    assert "2 of 6 cells are done, 3 failed, 1 were not run" in text
    assert "- Use it." in text
    assert "![F](f.svg)" in text
    assert "<script>" not in text.replace("\\<script>", "")
    assert "/home/alice" not in text
    assert text.index("## A table") < text.index("## Wins")
    assert write_markdown_table(["a"], [["x|y\nz"]]).splitlines() == ["| a |", "| --- |", "| x\\|y z |"]


def test_latex_is_booktabs_with_special_signs_escaped(study_result: StudyResult) -> None:
    text = write_latex(study_result)
    assert r"A\_1 \& \%" in text
    assert r"x|y \textless{}i\textgreater{}bad & $-$0.51 [$-$0.60, $-$0.40] & 2 of 3 \\" in text
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [2, 2, 2]
    assert text.count("{") == text.count("}")


def test_csv_has_every_number_with_its_ends_and_no_formula(study_result: StudyResult) -> None:
    rows = list(csv.DictReader(io.StringIO(write_csv(study_result))))
    assert [row["row"] for row in rows[:4]] == ["x|y <i>bad"] * 2 + ["hole"] * 2
    assert (float(rows[0]["value"]), float(rows[0]["low"]), rows[0]["n"]) == (-0.51234, -0.6, "100")
    assert rows[2]["value"] == ""
    table = study_result.tables[0]
    risky = table.model_copy(update={"rows": [table.rows[0].model_copy(update={"label": "=cmd()"})]})
    assert "'=cmd()" in write_csv(study_result.model_copy(update={"tables": [risky]}))
