from __future__ import annotations

from recveil.report.cost import cost, worth


def test_cost_has_the_paired_change_displacement_and_seconds(demo_document):
    tiles = {tile["term"]: tile for tile in cost(demo_document)}
    assert tiles["Change of NDCG@10"]["value"] == "−0.0030"
    assert "[−0.0055, −0.0005]" in tiles["Change of NDCG@10"]["note"]
    assert "−5.4 %" in tiles["Change of NDCG@10"]["note"]
    assert tiles["Displacement"]["value"] == "0.310"
    assert tiles["Time"]["value"] == "11.3 s"


def test_utility_is_shown_overall_and_per_class(demo_document):
    utility = worth(demo_document["utility"])
    assert [row["metric"] for row in utility["rows"]] == ["HR@10", "NDCG@10"]
    assert utility["metric"] == "NDCG@10"
    assert [(row["target"], row["label"]) for row in utility["classes"]][:2] == [("gender", "F"), ("gender", "M")]
    assert utility["classes"][0]["difference"]["interval"] == "[−0.0055, −0.0005]"


def test_nothing_measured_nothing_said():
    assert worth({}) is None
    assert cost({}) == []
