"""A folder of results becomes one typed document."""

from recveil.core.results import StudyResult
from recveil.studies.plans import Plan
from recveil.studies.study_result import build_study_result

LEAKS = {"none": (0.6, 0.5), "sliced": (0.02, 0.48)}


def test_an_attribute_study_becomes_one_document_that_can_be_read_back(fill_store, tmp_path) -> None:
    grid = {"data": ["demo"], "model": ["bprmf"], "defense": list(LEAKS), "target": ["gender"], "seed": [0, 1, 2]}
    plan = Plan.parse({"title": "t", "about": "a\nb", "kind": "attribute", "grid": grid}, name="p")
    result = build_study_result(fill_store(plan, LEAKS, fail=[("sliced", 1)], skip=[("none", 0)]), ["recveil"])
    assert result.cells.model_dump() == {"wanted": 6, "done": 4, "failed": 1, "missing": 1}
    assert (result.about, result.command_line, result.k) == ("a b", ["recveil"], 10)
    assert [failure.error for failure in result.failures] == ["DataError: <b>broken</b>"]
    result.write_json(tmp_path / "study.json")
    assert StudyResult.read_json(tmp_path / "study.json").to_json() == result.to_json()


def test_a_membership_study_has_heat_maps_instead_of_frontiers(fill_store) -> None:
    grid = {"data": ["demo"], "target": ["als", "lfm"], "shadow": ["als", "lfm"], "attack": ["biased,dlmia"]}
    study = Plan.parse({"title": "t", "kind": "membership", "grid": grid}, name="p")
    result = build_study_result(fill_store(study, {"biased": 0.6, "dlmia": 0.7, "rule": 0.65}))
    assert (result.kind, result.frontiers, result.volumes) == ("membership", [], None)
    assert (len(result.heats), len(result.heats[0].cells)) == (3, 4)
