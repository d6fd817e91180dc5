"""Tables and frontiers of a study that attacks attributes."""

from recveil.studies.attribute_tables import build_attribute_content
from recveil.studies.plans import Plan
from recveil.studies.pooled_seeds import pool_plan

LEAKS = {"none": (0.6, 0.5), "sliced": (0.02, 0.48), "noise": (0.5, 0.4)}


def build(fill_store, name="study", axes=None, **more):
    grid = {"data": ["demo"], "model": ["bprmf"], "defense": list(LEAKS), "target": ["gender"], "seed": [0, 1]}
    plan = Plan.parse({"title": "t", "kind": "attribute", "grid": {**grid, **(axes or {})}}, name="p")
    return build_attribute_content(pool_plan(plan, [fill_store(plan, LEAKS, name=name, **more)]))


def test_tables_have_holes_where_cells_failed_or_were_not_run(fill_store) -> None:
    content = build(fill_store, fail=[("sliced", 1)], skip=[("noise", 0), ("noise", 1)])
    attackers, ranking, time = content.tables
    rows = {row.label: row.cells for row in attackers.rows}
    assert rows["noise"] == {"seeds": "0 of 2 (2 not run)"}
    assert rows["sliced"]["seeds"] == "1 of 2 (1 failed)"
    assert (rows["none"]["seeds"], rows["none"]["both"]) == ("2", None)
    assert [column.key for column in attackers.columns] == ["advantage", "both", "of logistic", "of knn", "seeds"]
    assert [column.label for column in ranking.columns][-3:] == ["NDCG@10 change, %", "displacement", "seeds"]
    assert time.rows[0].label == "demo, bprmf, none"
    assert "train" not in [column.key for column in time.columns]  # no cell has that step


def test_titles_name_a_leak_ratio_only_where_there_are_several(fill_store) -> None:
    assert build(fill_store).tables[0].title == "Attackers: demo, bprmf, gender"
    content = build(fill_store, "two", {"leak_ratio": [0.4, 0.8]})
    titles = {f"Attackers: demo, bprmf, {ratio} of users known, gender" for ratio in (0.4, 0.8)}
    assert {table.title for table in content.tables} >= titles
    assert len(content.frontiers) == 2
    assert content.volumes.rows[0].cells["contests"] == "2"
