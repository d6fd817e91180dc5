"""The report in a real browser: nothing goes wrong, nothing is loaded, every chart is drawn."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest

from recveil.report import write_report

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MEASURE = """
figures => figures.map(figure => {
  const svg = figure.querySelector("svg");
  const box = svg ? svg.getBoundingClientRect() : {width: 0, height: 0};
  const marks = [...figure.querySelectorAll(".role-mark path, .role-mark line, .role-mark text")];
  const drawn = marks.filter(mark => { const r = mark.getBoundingClientRect(); return r.width + r.height > 0; });
  const frame = figure.getBoundingClientRect();
  const texts = [...figure.querySelectorAll("svg text")].map(text => text.getBoundingClientRect());
  const outside = texts.filter(r => r.width && (r.left < frame.left - 1 || r.right > frame.right + 1));
  return {name: figure.dataset.chart, width: box.width, height: box.height, drawn: drawn.length,
          outside: outside.length, color: svg ? getComputedStyle(svg.querySelector("text")).fill : ""};
})
"""


@pytest.fixture(scope="module")
def chromium():
    missing = [
        name
        for name, there in (
            ("the program chromium", shutil.which("chromium")),
            ("the package playwright", importlib.util.find_spec("playwright")),
        )
        if not there
    ]
    if missing:
        reason = f"the browser test needs {' and '.join(missing)}"
        if os.environ.get("RECVEIL_REQUIRE_BROWSER") == "1":
            pytest.fail(f"{reason}, and RECVEIL_REQUIRE_BROWSER=1 forbids skipping it")
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


OPEN_DETAILS = "document.querySelectorAll('details').forEach(details => details.open = true)"
CLIPPED = """[...document.querySelectorAll('.scroll')].filter(s => s.scrollWidth > s.clientWidth)
  .map(s => getComputedStyle(s).backgroundImage)"""
LEGEND_SIZES = "[...document.querySelectorAll('.legend')].map(l => parseFloat(getComputedStyle(l).fontSize))"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize("name", ["full_result", "defended_membership", "study_result"])
def test_the_report_opens_from_disk_with_every_chart_drawn(chromium, tmp_path, request, name):
    path = tmp_path / "report.html"
    write_report(request.getfixturevalue(name), path)
    for width in (1200, 390):
        for scheme in ("light", "dark"):
            page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            check_page(page, path, scheme)
            clipped = page.evaluate(CLIPPED)
            assert width < 1200 or not clipped
            assert all("gradient" in background for background in clipped)  # a shadow says that a table goes on
            assert all(size >= 12 for size in page.evaluate(LEGEND_SIZES))
            page.close()


def check_page(page, path, scheme):
    troubles, requests = [], []
    page.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("requestfailed", lambda request: troubles.append(request.url))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri(), wait_until="load")
    overflows = [page.evaluate(OVERFLOW)]
    page.evaluate(OPEN_DETAILS)
    overflows.append(page.evaluate(OVERFLOW))
    charts = page.eval_on_selector_all("figure.chart", MEASURE)
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert troubles == []
    assert [url for url in requests if not url.startswith(("file://", "data:"))] == []
    assert charts
    for chart in charts:
        assert chart["width"] > 100, chart
        assert chart["height"] > 50, chart
        assert chart["drawn"] >= 1, chart
        assert chart["outside"] == 0, chart
        assert chart["color"] == ink, chart
    assert max(overflows) <= 0
    assert (_brightness(ink) > _brightness(paper)) == (scheme == "dark")


def _brightness(color: str) -> int:
    return sum(int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(","))


@pytest.mark.thorough
@pytest.mark.browser
def test_the_answer_fits_on_the_first_screen_and_folded_details_are_printed(chromium, tmp_path, cloak_result):
    write_report(cloak_result, tmp_path / "report.html")
    page = chromium.new_page(viewport={"width": 1200, "height": 900})
    page.goto((tmp_path / "report.html").as_uri(), wait_until="load")
    bottom = page.evaluate("document.querySelector('#next').getBoundingClientRect().bottom")
    tables = (
        "[...document.querySelectorAll('details table')].filter(t => t.checkVisibility({contentVisibilityAuto: true}))"
    )
    folded = page.evaluate(f"{tables}.length")
    page.emulate_media(media="print")
    printed = page.evaluate(
        "[...document.querySelectorAll('details .folded')].map(d => d.getBoundingClientRect().height)"
    )
    shown, count = page.evaluate(f"[{tables}.length, document.querySelectorAll('details table').length]")
    page.close()
    assert bottom <= 900
    assert folded == 0
    assert min(printed) > 0
    assert shown == count > 5


@pytest.mark.thorough
@pytest.mark.browser
def test_a_hostile_name_runs_nothing(chromium, tmp_path, audit_result):
    hostile = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
    gender = audit_result.targets["gender"].model_copy(update={"labels": [hostile, "M"], "sentence": hostile})
    write_report(audit_result.model_copy(update={"targets": {hostile: gender}}), tmp_path / "report.html")
    page = chromium.new_page()
    page.goto((tmp_path / "report.html").as_uri(), wait_until="load")
    title, scripts = page.title(), page.evaluate("document.querySelectorAll('script, img').length")
    page.close()
    assert title.endswith("recveil")
    assert scripts == 0
