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
        *("reproduced", "reproduced", "setting", "setting", "reproduced"),
        *("reproduced", "reproduced", "setting"),
    ]


def test_the_measure_is_the_papers_or_the_nearest_and_it_is_named(fill_store) -> None:
    study = plan(attack(0.8, metric="f1", ours="balanced_accuracy"), attack(0.8, metric="auc"))
    first, second = compare_published(study, [fill_store(study, LEAKS)])
    assert (first.metric, first.verdict) == ("balanced_accuracy", "reproduced")
    assert second.verdict == "not run"  # the folder has no such measure


def test_holes_and_absent_data_have_verdicts_of_their_own(fill_store) -> None:
    away = {**attack(0.7), "data": "lfm-2b", "unavailable": "elsewhere"}
    missing = [("sliced", 0), ("sliced", 1)]
    assert verdicts(fill_store, away, attack(0.5, "sliced"), skip=missing) == ["not obtainable", "not run"]


def test_seconds_are_never_reproduced(fill_store) -> None:
    assert verdicts(fill_store, {**AT, "defense": "sliced", "metric": "seconds", "value": 0.5}) == ["setting"]


def test_every_verdict_has_its_sentence(fill_store) -> None:
    study = plan(
        attack(0.1, artifact="EVALUATION 2: inverted"), attack(0.1), attack(0.1, setting="other folds"), attack(0.8)
    )
    compared = compare_published(study, [fill_store(study, LEAKS)])
    assert [c.verdict for c in compared] == ["artifact", "setting", "setting", "reproduced"]
    reasons = [c.reason for c in compared]
    assert reasons[0] == "EVALUATION 2: inverted"
    assert "profile was not tried" in reasons[1]
    assert reasons[2:] == ["other folds", ""]


def test_an_artifact_that_we_come_to_as_well_is_reproduced(fill_store) -> None:
    assert verdicts(fill_store, attack(0.8, artifact="EVALUATION 2")) == ["reproduced"]


def test_changes_are_compared_where_levels_differ(fill_store) -> None:
    # Ours goes from 0.5 to 0.48, a loss of 4 %; the level of the paper is another.
    rows = [{**AT, "defense": d, "metric": "ndcg@10", "value": v} for d, v in (("none", 0.1), ("sliced", 0.095))]
    study = plan(*rows)
    before, after = compare_published(study, [fill_store(study, LEAKS)])
    assert (before.verdict, after.verdict) == ("setting", "reproduced")
    assert after.reason.startswith("the change against the undefended model is -5.0 % there, -3.")
    elsewhere = plan({**rows[1], "undefended": 0.1})  # another table prints the undefended model
    assert compare_published(elsewhere, [fill_store(elsewhere, LEAKS)])[0].verdict == "reproduced"
    rows[1]["value"] = 0.07
    far = plan(*rows)
    assert compare_published(far, [fill_store(far, LEAKS)])[1].verdict == "setting"


def test_a_change_is_against_the_undefended_models_of_the_same_seeds(fill_store) -> None:
    rows = [{**AT, "defense": d, "metric": "ndcg@10", "value": v} for d, v in (("none", 0.1), ("sliced", 0.095))]
    study, missing = plan(*rows), ("sliced", 1)
    rare = {"none": (0.6, 0.1), "sliced": (0.02, 0.06)}  # few hits, so that the seeds differ
    stores = [
        fill_store(study, rare, skip=skip, name=name)
        for name, skip in (("both", []), ("defended-one", [missing]), ("one", [missing, ("none", 1)]))
    ]
    reasons = [compare_published(study, [store])[1].reason for store in stores]
    assert reasons[1] == reasons[2] != reasons[0]
    apart = fill_store(study, rare, skip=[missing, ("none", 0)], name="apart")
    assert compare_published(study, [apart])[1].reason == reasons[1]


def test_an_f1_that_repeats_the_balanced_accuracy_is_not_counted(fill_store) -> None:
    f1 = attack(0.8, metric="f1", ours="balanced_accuracy")
    assert verdicts(fill_store, f1, attack(0.805)) == ["repeated", "reproduced"]
    assert verdicts(fill_store, f1, attack(0.75)) == ["reproduced", "setting"]


def test_the_attribute_of_a_number_is_named_where_several_are_protected() -> None:
    grid = {**GRID, "target": ["gender+age"]}
    row = attack(0.8, target="gender+age", of="age")
    study = Plan.parse({"title": "t", "kind": "attribute", "grid": grid, "published": [row]}, name="p")
    assert compare_published(study, [])[0].verdict == "not run"


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
    assert [row.verdict for row in rows] == ["setting", "reproduced"]
    assert page.index("table9") < page.index("table10")
    assert "recveil study reproduction" in page
    assert "| **all** | **1** | **0** | **1** | **0** | **0** |" in page
    assert "<i>" not in page.replace("\\<i>", "")
    assert "EVALUATION 1 to 8" in page


def test_missing_folders_are_named(tmp_path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        open_stores(tmp_path / "none")
    with pytest.raises(UsageError, match="There are no plans"):
        write_reproduction(tmp_path, tmp_path)
    assert open_stores(tmp_path) == []
