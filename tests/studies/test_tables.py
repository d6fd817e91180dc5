import json

from recveil.studies.plans import Plan
from recveil.studies.tables import build_study_result, build_table, make_column

LEAKS = {"none": (0.6, 0.5), "sliced": (0.02, 0.48), "noise": (0.5, 0.4)}


def plan(**more):
    grid = {"data": ["demo"], "model": ["bprmf"], "defense": list(LEAKS), "target": ["gender"], "seed": [0, 1]}
    return Plan.parse({"title": "t", "about": "a\nb", "kind": "attribute", "grid": {**grid, **more}}, name="p")


def test_a_study_becomes_one_plain_document_with_its_holes(made_up) -> None:
    document = build_study_result(
        made_up(plan(), LEAKS, fail=[("sliced", 1)], skip=[("noise", 0), ("noise", 1)]), ["recveil"]
    )
    json.dumps(document, allow_nan=False)
    assert document["cells"] == {"wanted": 6, "done": 3, "failed": 1, "missing": 2}
    assert document["about"] == "a b"
    assert [f["error"] for f in document["failures"]] == ["DataError: <b>broken</b>"]
    attackers, ranking, time = document["tables"]
    rows = {row["label"]: row["cells"] for row in attackers["rows"]}
    assert rows["noise"] == {"seeds": "0 of 2 (2 not run)"}
    assert rows["sliced"]["seeds"] == "1 of 2 (1 failed)"
    assert rows["none"]["seeds"] == "2"
    assert rows["none"]["both"] is None
    assert [c["key"] for c in attackers["columns"]] == ["advantage", "both", "of logistic", "of knn", "seeds"]
    assert [c["label"] for c in ranking["columns"]][-3:] == ["NDCG@10 change, %", "displacement", "seeds"]
    assert [row["label"] for row in time["rows"]][0] == "demo, bprmf, none"


def test_titles_name_a_panel_only_where_there_are_several(made_up) -> None:
    one = build_study_result(made_up(plan(), LEAKS, name="one"))
    assert one["tables"][0]["title"] == "Attackers: demo, bprmf, gender"
    two = build_study_result(made_up(plan(leak_ratio=[0.4, 0.8]), LEAKS, name="two"))
    assert {t["title"] for t in two["tables"]} >= {
        f"Attackers: demo, bprmf, {r} of users known, gender" for r in (0.4, 0.8)
    }
    assert len(two["frontiers"]) == 2
    assert two["volumes"]["rows"][0]["cells"]["contests"] == "2"


def test_a_column_without_any_number_is_left_out() -> None:
    rows = [{"label": "x", "cells": {"a": 1.0, "b": None}}]
    assert [
        c["key"] for c in build_table("i", "t", "n", [make_column("a", "A"), make_column("b", "B")], rows)["columns"]
    ] == ["a"]


def test_membership_has_tables_and_heat_maps_instead(made_up) -> None:
    grid = {"data": ["demo"], "target": ["als", "lfm"], "shadow": ["als", "lfm"], "attack": ["biased,dlmia"]}
    study = Plan.parse({"title": "t", "kind": "membership", "grid": grid}, name="p")
    document = build_study_result(made_up(study, {"biased": 0.6, "dlmia": 0.7, "rule": 0.65}))
    assert "frontiers" not in document
    assert [h["title"].split(":")[0] for h in document["heats"]] == ["best rule", "biased", "dlmia"]
    assert len(document["heats"][0]["cells"]) == 4
