import xml.etree.ElementTree as ET

from recveil.report.trials import frontier_figure, frontier_svg


def document():
    trials = [
        {"options": {}, "advantage": 0.6, "loss": 0.0, "cell": "a", "defended": False},
        {"options": {"x": 1}, "advantage": 0.1, "loss": 2.0, "cell": "b", "defended": True},
        {"options": {"x": 2}, "advantage": 0.3, "loss": 4.0, "cell": "c", "defended": True},
    ]
    names = {"data": "demo", "model": "bprmf", "defense": "noise", "target": "<gender>"}
    return {**names, "trials": trials, "frontier": trials[:2], "chosen": trials[1]}


def test_each_setting_is_a_point_and_the_choice_stands_out() -> None:
    rows = frontier_figure(document())["rows"]
    assert [row["method"] for row in rows] == ["no defense", "chosen", "tried"]
    assert [row["best"] for row in rows] == [True, True, False]
    assert frontier_figure({**document(), "chosen": None})["rows"][1]["method"] == "tried"


def test_the_file_is_an_svg_of_its_own() -> None:
    root = ET.fromstring(frontier_svg(document()))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.get("color")
    assert "<gender>" in root.get("aria-label")
