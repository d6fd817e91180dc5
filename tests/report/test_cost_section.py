from __future__ import annotations

from recveil.core.results import CloakResult
from recveil.report.attribute_page import build_attribute_page


def test_cost_has_the_paired_change_displacement_and_seconds(cloak_result: CloakResult) -> None:
    tiles = {tile.term: tile for tile in build_attribute_page(cloak_result).cost}
    assert tiles["Change of NDCG@10"].value == "−0.0030"
    assert "[−0.0055, −0.0005]" in tiles["Change of NDCG@10"].note
    assert "−5.4 %" in tiles["Change of NDCG@10"].note
    assert tiles["Displacement"].value == "0.310"
    assert tiles["Time"].value == "11.3 s"


def test_utility_figures_show_levels_and_the_paired_change(cloak_result: CloakResult) -> None:
    levels, change = build_attribute_page(cloak_result).utility.plots
    everyone = [(p.release, p.value) for p in levels.points if p.group == "Everyone"]
    assert everyone == [("before", 0.056), ("after", 0.053)]
    assert change.points[0].value == -0.003
    assert [line.position for line in change.lines] == [0.0]
