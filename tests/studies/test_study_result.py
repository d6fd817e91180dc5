"""A folder of results becomes one typed document, with holes where cells failed."""

from recveil.core.results import StudyResult
from recveil.studies.plans import Plan
from recveil.studies.study_result import build_study_result

LEAKS = {"none": (0.6, 0.5), "sliced": (0.02, 0.48), "noise": (0.5, 0.4)}


def plan(**axes):
    grid = {"data": ["demo"], "model": ["bprmf"], "defense": list(LEAKS), "target": ["gender"], "seed": [0, 1]}
    return Plan.parse({"title": "t", "about": "a\nb", "kind": "attribute", "grid": {**grid, **axes}}, name="p")


def test_a_study_becomes_one_document_with_its_holes(fill_store, tmp_path) -> None:
    store = fill_store(plan(), LEAKS, fail=[("sliced", 1)], skip=[("noise", 0), ("noise", 1)])
    result = build_study_result(store, ["recveil"])
    assert result.cells.model_dump() == {"wanted": 6, "done": 3, "failed": 1, "missing": 2}
    assert (result.about, result.command_line, result.k) == ("a b", ["recveil"], 10)
    assert [failure.error for failure in result.failures] == ["DataError: <b>broken</b>"]
    attackers, ranking, time = result.tables
    rows = {row.label: row.cells for row in attackers.rows}
    assert rows["noise"] == {"seeds": "0 of 2 (2 not run)"}
    assert rows["sliced"]["seeds"] == "1 of 2 (1 failed)"
    assert (rows["none"]["seeds"], rows["none"]["both"]) == ("2", None)
    assert [column.key for column in attackers.columns] == ["advantage", "both", "of logistic", "of knn", "seeds"]
    assert [column.label for column in ranking.columns][-3:] == ["NDCG@10 change, %", "displacement", "seeds"]
    assert time.rows[0].label == "demo, bprmf, none"
    assert "train" not in [column.key for column in time.columns]  # no cell has that step
    result.write_json(tmp_path / "study.json")
    assert StudyResult.read_json(tmp_path / "study.json").to_json() == result.to_json()


def test_titles_name_a_leak_ratio_only_where_there_are_several(fill_store) -> None:
    one = build_study_result(fill_store(plan(), LEAKS, name="one"))
    assert one.tables[0].title == "Attackers: demo, bprmf, gender"
    two = build_study_result(fill_store(plan(leak_ratio=[0.4, 0.8]), LEAKS, name="two"))
    titles = {f"Attackers: demo, bprmf, {ratio} of users known, gender" for ratio in (0.4, 0.8)}
    assert {table.title for table in two.tables} >= titles
    assert len(two.frontiers) == 2
    assert two.volumes.rows[0].cells["contests"] == "2"


def test_membership_has_tables_and_heat_maps_instead_of_frontiers(fill_store) -> None:
    grid = {"data": ["demo"], "target": ["als", "lfm"], "shadow": ["als", "lfm"], "attack": ["biased,dlmia"]}
    study = Plan.parse({"title": "t", "kind": "membership", "grid": grid}, name="p")
    result = build_study_result(fill_store(study, {"biased": 0.6, "dlmia": 0.7, "rule": 0.65}))
    assert (result.kind, result.frontiers, result.volumes) == ("membership", [], None)
    assert len(result.heats) == 3
    assert len(result.heats[0].cells) == 4
