"""What is understood of a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recveil.service.documents import ColumnChoice
from recveil.service.table_overview import inspect_table
from service.tools import make_table


def test_users_columns_classes_and_undisclosed_are_counted(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").write_bytes(make_table())
    overview = inspect_table(tmp_path, ColumnChoice())
    assert overview.problem is None
    assert (overview.n_users, overview.dimensions) == (160, 4)
    assert (overview.id_column, overview.vector_columns) == ("user_id", ["embedding"])
    gender = overview.columns[0]
    assert (gender.name, gender.kind, gender.n_classes, gender.undisclosed) == ("gender", "classes", 2, 5)
    assert sum(gender.counts.values()) == 155
    assert [path.name for path in tmp_path.iterdir()] == ["table.parquet"]


def test_a_table_of_other_names_is_a_problem_until_columns_are_chosen(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").write_bytes(make_table(id="customer", vectors="v"))
    overview = inspect_table(tmp_path, ColumnChoice())
    assert "no column 'user_id'" in str(overview.problem)
    assert overview.all_columns == ["customer", "v", "gender"]
    chosen = inspect_table(tmp_path, ColumnChoice(id="customer", vectors=["v"]))
    assert chosen.problem is None
    assert (chosen.id_column, chosen.vector_columns) == ("customer", ["v"])


def test_users_who_are_missing_in_the_attributes_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").write_bytes(make_table())
    rows = "\n".join(f"{user},{user % 3}" for user in range(100))
    (tmp_path / "attributes.csv").write_text(f"user_id,region\n{rows}\n")
    overview = inspect_table(tmp_path, ColumnChoice())
    assert overview.columns[0].n_classes == 3
    assert "60 of the 160 users" in overview.warnings[0]


def test_arrays_need_ids_and_attributes(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", np.ones((5, 2), np.float32))
    assert "no user ids" in str(inspect_table(tmp_path, ColumnChoice()).problem)
    assert "Add a table of attributes" in str(inspect_table(tmp_path, ColumnChoice(row_numbers=True)).problem)


def test_a_file_that_is_not_what_it_says_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").write_text("user_id,embedding\n")
    overview = inspect_table(tmp_path, ColumnChoice())
    assert overview.problem
    assert overview.all_columns == []
