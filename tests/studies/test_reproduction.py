"""Published numbers beside ours, and the verdict on each."""

import json

import pytest

from recveil.core.errors import UsageError
from recveil.studies.plans import Plan
from recveil.studies.reproduction import compare_published, open_stores, write_reproduction

LEAKS = {"none": (0.6, 0.5), "sliced": (0.02, 0.48)}
AT = {"data": "demo", "model": "bprmf", "target": "gender"}
GRID = {"data": ["demo"], "model": ["bprmf"], "defense": list(LEAKS), "target": ["gender"], "seed": [0, 1]}


def plan(*published):
    return Plan.parse({"title": "t", "kind": "attribute", "grid": GRID, "published": list(published)}, name="p")


def attack(value, defense="none", metric="balanced_accuracy", **more):
    return {**AT, "defense": defense, "attack": "logistic", "metric": metric, "value": value, **more}


def verdicts(fill_store, *published, **more):
    study = plan(*published)
    return [c.verdict for c in compare_published(study, [fill_store(study, LEAKS, **more)])]


def test_a_number_is_reproduced_within_the_interval_or_near_enough(fill_store) -> None:
    # Ours is 0.8 with an interval of about 0.01 either way, and NDCG@10 0.5 with one of about 0.05.
    scores = [attack(0.8), attack(0.829), attack(0.835), attack(0.765), attack(0.5, "sliced")]
    ranks = [{**AT, "defense": "none", "metric": "ndcg@10", "value": v} for v in (0.5, 0.53, 0.7)]
    assert verdicts(fill_store, *scores, *ranks) == [
        *("reproduced", "reproduced", "different", "different", "reproduced"),
        *("reproduced", "reproduced", "different"),
    ]


def test_the_measure_is_the_papers_or_the_nearest_and_it_is_named(fill_store) -> None:
    study = plan(attack(0.8, metric="f1", ours="balanced_accuracy"), attack(0.8, metric="auc"))
    first, second = compare_published(study, [fill_store(study, LEAKS)])
    assert (first.metric, first.verdict) == ("balanced_accuracy", "reproduced")
    assert second.verdict == "not run"  # the folder has no such measure


def test_holes_and_absent_data_have_verdicts_of_their_own(fill_store) -> None:
    away = {**attack(0.7), "data": "lfm-2b", "unavailable": "elsewhere"}
    missing = [("sliced", 0), ("sliced", 1)]
    assert verdicts(fill_store, away, attack(0.5, "sliced"), skip=missing) == ["data not available here", "not run"]


def test_seconds_are_never_reproduced(fill_store) -> None:
    assert verdicts(fill_store, {**AT, "defense": "sliced", "metric": "seconds", "value": 0.5}) == ["different"]


def test_reasons_come_from_the_plan_or_are_not_known(fill_store) -> None:
    study = plan(attack(0.1, note="EVALUATION 2: inverted"), attack(0.1), attack(0.8))
    reasons = [c.reason for c in compare_published(study, [fill_store(study, LEAKS)])]
    assert reasons[0] == "EVALUATION 2: inverted"
    assert "no reason known" in reasons[1]
    assert reasons[2] == ""


def test_a_published_number_without_a_cell_is_a_fault_of_the_plan(fill_store) -> None:
    study = plan(attack(0.8, "slicd"))
    with pytest.raises(UsageError, match="no cell for its published number .*slicd"):
        compare_published(study, [fill_store(plan(), LEAKS)])


def test_leak_ratios_are_matched(fill_store) -> None:
    grid = {**GRID, "leak_ratio": [0.4, 0.8]}
    numbers = [attack(0.8, leak_ratio=0.4), attack(0.8, leak_ratio=0.6)]
    study = Plan.parse({"title": "t", "kind": "attribute", "grid": grid, "published": numbers[:1]}, name="p")
    assert compare_published(study, [fill_store(study, LEAKS)])[0].verdict == "reproduced"
    wrong = Plan.parse({"title": "t", "kind": "attribute", "grid": grid, "published": numbers[1:]}, name="p")
    with pytest.raises(UsageError, match="no cell"):
        compare_published(wrong, [])


def test_membership_numbers_are_found_by_shadow_target_and_attack(fill_store) -> None:
    grid = {"data": ["demo"], "target": ["als"], "shadow": ["als", "lfm"], "attack": ["biased,dlmia"]}
    one = {"data": "demo", "shadow": "lfm", "target": "als", "attack": "dlmia", "metric": "auc", "value": 0.7}
    study = Plan.parse({"title": "t", "kind": "membership", "grid": grid, "published": [one]}, name="p")
    (found,) = compare_published(study, [fill_store(study, {"biased": 0.6, "dlmia": 0.7, "rule": 0.5})])
    assert (found.verdict, found.ours.value) == ("reproduced", 0.7)


def test_the_page_has_the_command_the_rule_the_counts_and_every_number(fill_store, tmp_path) -> None:
    papers = tmp_path / "papers"
    papers.mkdir()
    grid = "".join(f"grid.{key} = {json.dumps(values)}\n" for key, values in GRID.items())
    where = ", ".join(f"{key} = '{value}'" for key, value in attack(0.8).items() if key != "value")
    for name, value in (("x2025_table10", 0.8), ("x2025_table9", 0.1)):
        text = f"title = '{name} | <i>'\nkind = 'attribute'\n{grid}published = [{{ {where}, value = {value} }}]\n"
        (papers / f"{name}.toml").write_text(text)
    fill_store(plan(), LEAKS, name="studies/p")
    page, rows = write_reproduction(papers, tmp_path / "studies")
    assert [row.verdict for row in rows] == ["different", "reproduced"]
    assert page.index("table9") < page.index("table10")
    assert "recveil study reproduction" in page
    assert "| **all** | **1** | **1** | **0** | **0** |" in page
    assert "<i>" not in page.replace("\\<i>", "")
    assert "EVALUATION 8" in page


def test_missing_folders_are_named(tmp_path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        open_stores(tmp_path / "none")
    with pytest.raises(UsageError, match="There are no plans"):
        write_reproduction(tmp_path, tmp_path)
    assert open_stores(tmp_path) == []
