"""Numbers taken over from an earlier page of published numbers."""

import json

import pytest

from recveil.core.errors import UsageError
from recveil.studies.earlier_pages import find_earlier, read_earlier_page
from recveil.studies.plans import Plan
from recveil.studies.reproduction import compare_published, write_reproduction

AT = {"data": "demo", "model": "bprmf", "target": "gender"}
GRID = {
    "data": ["demo"],
    "model": ["bprmf"],
    "defense": ["none", {"name": "noise", "label": "noise, scale 2", "scale": 2.0}, "sliced"],
    "target": ["gender"],
    "seed": [0, 1],
}
HEAD = "| data | model | defense | target | attack | measure | paper | ours | seeds | verdict | reason or note |"
ROWS = [
    "| demo | bprmf | none | gender | logistic | f1 | 0.8 | balanced accuracy 0.790 [0.700, 0.850] | 3 | different | |",
    "| demo | bprmf | none | gender |  | ndcg@10 | 0.1 | 0.5000 [0.4500, 0.5500] | 3 | different | |",
    "| demo | bprmf | sliced | gender |  | ndcg@10 | 0.095 | 0.4800 [0.4300, 0.5300] | 3 | different | |",
    "| demo | bprmf | noise | gender | logistic | auc | 0.9 | 0.500 [0.490, 0.510] | 3 | setting | weak \\| noise |",
    "| demo | bprmf | sliced | gender | logistic | auc | 0.7 |  |  | not run |  |",
]


def write_page(path, rows=ROWS, head=HEAD):
    lines = ["# Page", "", "## Table", "", "`p.toml`", "", head, "| --- |", *rows]
    path.write_text("\n".join(lines) + "\n")
    return path


def number(defense="none", metric="f1", value=0.8, **more):
    attack = {} if "@" in metric else {"attack": "logistic"}
    return {**AT, **attack, "defense": defense, "metric": metric, "value": value, **more}


def compare(page, *published):
    study = Plan.parse({"title": "t", "kind": "attribute", "grid": GRID, "published": list(published)}, name="p")
    return compare_published(study, [], read_earlier_page(page, "old"))


def test_numbers_are_read_with_measure_interval_seeds_and_run(tmp_path) -> None:
    first, *_, last = read_earlier_page(write_page(tmp_path / "page.md"), "2026-01-01")
    assert (first.metric, first.ours.value, first.ours.low, first.seeds) == ("balanced_accuracy", 0.79, 0.7, 3)
    assert (first.plan, first.run, last.setting) == ("p", "2026-01-01", "weak | noise")


def test_an_earlier_number_is_judged_by_the_rule_of_today(tmp_path) -> None:
    page = write_page(tmp_path / "page.md")
    near, missing = compare(page, number(), number("sliced", "auc", 0.7))
    assert (near.verdict, near.run, near.metric, near.seeds) == ("reproduced", "old", "balanced_accuracy", 3)
    assert (missing.verdict, missing.run) == ("not run", "")


def test_earlier_changes_are_compared_within_their_run(tmp_path) -> None:
    page = write_page(tmp_path / "page.md")
    before, after = compare(page, number("none", "ndcg@10", 0.1), number("sliced", "ndcg@10", 0.095))
    assert before.verdict == "setting"
    assert "head of this page" in before.reason
    assert after.verdict == "reproduced"
    assert after.reason.startswith("the change against the undefended model is -5.0 % there, -4.0 % here")


def test_a_change_is_compared_with_the_undefended_model_of_another_table(tmp_path) -> None:
    path = write_page(tmp_path / "page.md", rows=[ROWS[2]])
    other = ["## Another table", "", "`q.toml`", "", HEAD, "| --- |", ROWS[1], ""]
    path.write_text("\n".join([*path.read_text().splitlines(), *other]))
    (after,) = compare(path, number("sliced", "ndcg@10", 0.095))
    assert after.verdict == "reproduced"
    assert after.reason.startswith("the change against the undefended model is -5.0 % there, -4.0 % here")


def test_a_defense_with_other_options_is_named(tmp_path) -> None:
    page = write_page(tmp_path / "page.md")
    (found,) = compare(page, number("noise, scale 2", "auc", 0.9))
    assert (found.verdict, found.reason) == ("setting", "measured as `noise`; weak | noise")
    page = write_page(tmp_path / "page.md", rows=[ROWS[3].replace("0.500 [0.490, 0.510]", "0.890 [0.880, 0.910]")])
    (found,) = compare(page, number("noise, scale 2", "auc", 0.9))
    assert (found.verdict, found.reason) == ("reproduced", "measured as `noise`")


def test_of_several_other_options_the_nearest_counts(tmp_path) -> None:
    rows = [ROWS[3].replace("| noise |", f"| noise, scale {n} |").replace("0.500", f"0.49{n}") for n in (1, 2)]
    earlier = read_earlier_page(write_page(tmp_path / "page.md", rows=rows), "old")
    grid = {**GRID, "defense": ["none", {"name": "noise", "label": "noise, scale 2, loud", "scale": 2.5}, "sliced"]}
    published = [number("noise, scale 2, loud", "auc", 0.9)]
    study = Plan.parse({"title": "t", "kind": "attribute", "grid": grid, "published": published}, name="p")
    (found,) = compare_published(study, [], earlier)
    assert (found.ours.value, found.reason.partition(";")[0]) == (0.492, "measured as `noise, scale 2`")


def test_a_defense_taken_over_twice_keeps_the_name_it_was_measured_as(tmp_path) -> None:
    row = ROWS[3].replace("| noise |", "| noise, scale 1 |", 1).replace("weak", "measured as `noise`; weak")
    page = write_page(tmp_path / "page.md", rows=[row])
    (found,) = compare(page, number("noise, scale 2", "auc", 0.9))
    assert (found.verdict, found.reason) == ("setting", "measured as `noise`; weak | noise")


def test_one_attribute_protected_in_place_of_several_is_named(tmp_path) -> None:
    grid = {**GRID, "target": ["gender+age"]}
    row = number("none", target="gender+age", of="gender", value=0.8)
    study = Plan.parse({"title": "t", "kind": "attribute", "grid": grid, "published": [row]}, name="p")
    page = write_page(tmp_path / "page.md", rows=[ROWS[0].replace("0.790 [0.700, 0.850]", "0.600 [0.590, 0.610]")])
    (found,) = compare_published(study, [], read_earlier_page(page, "old"))
    assert found.reason == "gender was protected alone; that run had other settings, which the head of this page names"


def test_an_artifact_stays_one_and_results_at_hand_come_first(tmp_path, fill_store) -> None:
    page = write_page(tmp_path / "page.md")
    (artifact,) = compare(page, number("noise, scale 2", "auc", 0.9, artifact="EVALUATION 4"))
    assert (artifact.verdict, artifact.reason, artifact.run) == ("artifact", "EVALUATION 4", "old")
    grid = {**GRID, "defense": ["none"]}
    study = Plan.parse(
        {"title": "t", "kind": "attribute", "grid": grid, "published": [number(ours="balanced_accuracy")]}, name="p"
    )
    store = fill_store(study, {"none": (0.2, 0.5)})
    (at_hand,) = compare_published(study, [store], read_earlier_page(page, "old"))
    assert (at_hand.run, at_hand.seeds, round(at_hand.ours.value, 2)) == ("", 2, 0.6)


def test_a_page_is_written_and_read_again_with_its_runs(tmp_path) -> None:
    plans = tmp_path / "plans"
    plans.mkdir()
    (tmp_path / "none").mkdir()
    grid = "".join(f"grid.{key} = {json.dumps(values)}\n" for key, values in GRID.items() if key != "defense")
    where = ", ".join(f"{key} = '{value}'" for key, value in number().items() if key != "value")
    text = f"title = 't'\nkind = 'attribute'\n{grid}grid.defense = ['none']\npublished = [{{ {where}, value = 0.8 }}]\n"
    (plans / "p.toml").write_text(text)
    old = str(write_page(tmp_path / "page.md"))
    page, _ = write_reproduction(plans, tmp_path / "none", "", {"old": old})
    assert f"--earlier old={old}" in page
    (tmp_path / "again.md").write_text(page)
    (again,) = read_earlier_page(tmp_path / "again.md", "newer")
    assert (again.run, again.ours.value) == ("old", 0.79)


def test_other_plans_and_values_are_not_matched(tmp_path) -> None:
    earlier = read_earlier_page(write_page(tmp_path / "page.md"), "old")
    study = Plan.parse({"title": "t", "kind": "attribute", "grid": GRID, "published": [number()]}, name="p")
    assert find_earlier("p", study.published[0], earlier) is not None
    assert find_earlier("q", study.published[0], earlier) is None
    assert find_earlier("p", study.published[0].model_copy(update={"value": 0.81}), earlier) is None


def test_pages_without_numbers_are_refused(tmp_path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_earlier_page(tmp_path / "none.md", "old")
    with pytest.raises(UsageError, match="holds no numbers"):
        read_earlier_page(write_page(tmp_path / "page.md", rows=[]), "old")
