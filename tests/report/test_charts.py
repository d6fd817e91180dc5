from __future__ import annotations

import builtins

import pytest

from recveil.core.errors import DataError, MissingExtra
from recveil.core.results import CloakResult
from recveil.report.attribute_page import build_attribute_page
from recveil.report.charts import check_chart_packages, draw, draw_file
from recveil.report.figures import DotPlot, HeatPlot, HeatSquare, IntervalPoint

HOSTILE = "<script>alert(1)</script>\"'&"


def make_dots(group: str = "a", title: str = "A title") -> DotPlot:
    return DotPlot(id="x", title=title, axis="Balanced accuracy", points=[IntervalPoint(group, "", 0.6, 0.5, 0.7)])


@pytest.mark.thorough
def test_text_takes_its_color_from_the_page_and_the_background_is_clear(full_result: CloakResult, read_svg) -> None:
    target = build_attribute_page(full_result).targets[0]
    for plot in [*target.plots, *target.leaks.plots]:
        root = read_svg(draw(plot)).root
        assert {element.get("fill") for element in root.iter("text")} == {"currentColor"}
        assert not [rect for rect in root.iter("rect") if rect.get("fill") in ("white", "#fff", "#ffffff")]


def test_the_figure_has_a_name_and_a_size(read_svg) -> None:
    root = read_svg(draw(make_dots())).root
    assert (root.get("role"), root.get("aria-label"), root.find("title").text) == ("img", "A title", "A title")
    assert float(root.get("width")) > 200
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"


def test_names_from_the_data_are_escaped(read_svg) -> None:
    squares = [HeatSquare(HOSTILE, column, 0.5, "50 %") for column in (HOSTILE, "M")]
    heat = HeatPlot(id="h", title=HOSTILE, labels=[HOSTILE, "M"], squares=squares)
    for svg in (draw(make_dots(HOSTILE, HOSTILE)), draw(heat)):
        assert "<script" not in svg
        assert read_svg(svg).root.get("aria-label") == HOSTILE
        assert any(text and text.startswith("<script>") for text in read_svg(svg).texts)


def test_the_same_figure_is_the_same_bytes_and_a_file_names_its_format() -> None:
    assert draw(make_dots()) == draw(make_dots())
    assert 'xmlns="http://www.w3.org/2000/svg"' in draw_file(make_dots())


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def fail(name, *args, **kwargs):
        if name == "vl_convert":
            raise ModuleNotFoundError("No module named 'vl_convert'", name="vl_convert")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(MissingExtra, match="vl_convert.*pip install --force-reinstall recveil"):
        draw(make_dots())


def test_a_missing_package_is_found_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    check_chart_packages()
    monkeypatch.setattr("recveil.report.charts.find_spec", lambda name: None if name == "altair" else object())
    with pytest.raises(MissingExtra, match="altair"):
        check_chart_packages()


@pytest.mark.thorough
def test_under_a_limit_on_memory_another_process_draws_and_its_end_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = draw(make_dots())
    monkeypatch.setattr("resource.getrlimit", lambda _: (2**32, 2**32))
    assert draw(make_dots()) == drawn
    monkeypatch.setattr("recveil.report.charts.CONVERSION", "import os; os.abort()")
    with pytest.raises(DataError, match="limit on memory"):
        draw(make_dots())
