import csv
import io

import pytest

from recveil.report.tables import as_csv, as_latex, as_markdown, escaped, markdown_table, shown, tables_of

NUMBER = {"value": -0.51234, "low": -0.6, "high": -0.4, "n": 100}
COLUMN = {"key": "a", "label": "A_1 & %", "digits": 2, "signed": True}


def document(**more):
    rows = [
        {"label": "x|y <b>", "cells": {"a": NUMBER, "b": "2 of 3"}},
        {"label": "hole", "cells": {"b": "0 of 3 (3 failed)"}},
    ]
    one = {
        "id": "t",
        "title": "A table",
        "note": "Note.",
        "columns": [COLUMN, {"key": "b", "label": "seeds"}],
        "rows": rows,
    }
    cells = {"wanted": 6, "done": 2, "failed": 3, "missing": 1}
    told = {"title": "T", "about": "About.", "size": "full", "cells": cells, "advice": ["Use it."], "tables": [one]}
    return {**told, "failures": [{"cell": "c", "error": "<script>"}], **more}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (NUMBER, "−0.51 [−0.60, −0.40]"),
        ({"value": 0.2, "low": None, "high": None, "n": 1}, "+0.20"),
        ({"value": None, "low": None, "high": None, "n": 1}, ""),
        (1.0, "+1.00"),
        ("2 of 3", "2 of 3"),
        (None, ""),
    ],
)
def test_a_cell_is_a_number_with_its_interval_or_what_there_is(value, text: str) -> None:
    assert shown(value, COLUMN) == text


def test_markdown_has_every_row_and_a_hole_where_nothing_was_measured() -> None:
    page = as_markdown(document())
    assert "| x\\|y \\<b> | −0.51 [−0.60, −0.40] | 2 of 3 |" in page
    assert "| hole |  | 0 of 3 (3 failed) |" in page
    assert "2 of 6 cells are done, 3 failed, 1 were not run" in page
    assert "- Use it." in page
    assert "<script>" not in page.replace("\\<script>", "")


def test_a_markdown_table_cannot_be_broken_by_what_is_in_it() -> None:
    lines = markdown_table(["a"], [["x|y\nz"]]).splitlines()
    assert lines == ["| a |", "| --- |", "| x\\|y z |"]
    assert escaped("*a*") == "\\*a\\*"


def test_latex_is_booktabs_with_special_signs_escaped() -> None:
    page = as_latex(document())
    assert r"A\_1 \& \%" in page
    assert r"x|y \textless{}b\textgreater{} & $-$0.51 [$-$0.60, $-$0.40] & 2 of 3 \\" in page
    assert [page.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert page.count("{") == page.count("}")


def test_csv_has_every_number_with_its_ends_and_no_formula() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(document()))))
    assert [row["row"] for row in rows] == ["x|y <b>"] * 2 + ["hole"] * 2
    assert (float(rows[0]["value"]), float(rows[0]["low"]), rows[0]["n"]) == (-0.51234, -0.6, "100")
    assert rows[2]["value"] == ""
    risky = document()
    risky["tables"][0]["rows"][0]["label"] = "=cmd()"
    assert "'=cmd()" in as_csv(risky)


def test_tables_of_the_contest_come_last_and_only_with_rows() -> None:
    wins = {**document()["tables"][0], "id": "wins"}
    assert [t["id"] for t in tables_of(document(wins=wins, volumes={"rows": []}))] == ["t", "wins"]
