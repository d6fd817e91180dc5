"""The documentation site: it builds without a warning, opens from disk in a real browser, and its search answers."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
PAGES = ("index", "for-decision-makers", "tutorials/defend-and-measure", "reference/cli", "explanation/comparison")
WIDTHS = (1200, 390)
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
RESULTS = "[...document.querySelectorAll('#search-results li a')].map(a => a.getAttribute('href'))"
ANSWERS = {
    "How do I audit a CSV": ("faq", "reference/files"),
    "What does inconclusive mean": ("faq", "explanation/metrics-and-verdicts"),
    "How large must my table be": ("faq", "explanation/power-and-calibration"),
    "How do I cloak tomorrow's users": ("faq", "tutorials/production"),
    "Does it protect people who did not disclose": ("faq", "how-to/undisclosed-users"),
    "What does epsilon mean here": ("faq", "explanation/privacy-budgets"),
    "How do I gate CI": ("faq", "how-to/ci-gate"),
    "How do I add an attack": ("faq", "how-to/add-an-attack"),
    "What leaves my machine": ("faq", "install"),
    "What does it cost": ("faq", "for-decision-makers"),
    "inconclusive": ("faq", "explanation/metrics-and-verdicts"),
    "add an attack": ("faq", "how-to/add-an-attack"),
    "gate CI": ("faq", "how-to/ci-gate"),
    "epsilon": ("explanation/privacy-budgets", "faq"),
    "undisclosed users": ("how-to/undisclosed-users", "faq"),
}
"""Questions and words that newcomers type, and the pages that answer them."""


def build_site(folder: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-d", str(folder / "trees"), *settings]
    command += ["-b", "html", str(ROOT / "docs"), str(folder / "html")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without running its blocks: `make docs` and the slow test below run them."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    done = build_site(folder, "-D", "run_blocks=0")
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if not (shutil.which("chromium") and importlib.util.find_spec("playwright")):
        if os.environ.get("RECVEIL_REQUIRE_BROWSER") == "1":
            pytest.fail(
                "the browser test needs chromium and playwright, and RECVEIL_REQUIRE_BROWSER=1 forbids skipping"
            )
        pytest.skip("the browser test needs the program chromium and the package playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A page that notes errors and requests to the outside."""
    opened = chromium.new_page()
    opened.faults = []
    opened.on("console", lambda message: opened.faults.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: opened.faults.append(str(error)))
    opened.on("request", lambda asked: None if _is_local(asked.url) else opened.faults.append(asked.url))
    yield opened
    opened.close()


def _is_local(address: str) -> bool:
    return address.startswith(("file:", "data:", "about:", "blob:"))


@pytest.mark.slow
def test_the_site_builds_with_every_tutorial_run(tmp_path: Path) -> None:
    done = build_site(tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "html" / "tutorials" / "audit-your-embeddings.html").read_text()
    assert "An attacker can infer gender" in page
    assert (tmp_path / "html" / "example-report.html").is_file()


@pytest.mark.slow
def test_a_block_that_fails_stops_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs" / "_tools", docs / "_tools")
    (docs / "tutorials").mkdir()
    (docs / "index.md").write_text("# T\n\n```{run} sh\nrecveil audit none.parquet --traget gender\n```\n")
    (docs / "conf.py").write_text(
        "import sys; sys.path.insert(0, '_tools')\nextensions = ['myst_parser', 'run_directive']\n"
    )
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(docs), str(tmp_path / "html")]
    done = subprocess.run(command, cwd=docs, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "No such option" in done.stderr


@pytest.mark.thorough
def test_reference_pages_name_what_the_code_has(site: Path) -> None:
    from recveil.defenses import DEFENSES
    from recveil.models import MODELS

    for page, names in (("defenses", DEFENSES), ("models", MODELS)):
        text = (site / "reference" / f"{page}.html").read_text()
        assert [name for name in names if f'id="{name}"' not in text] == []
    assert "--fail-if" in (site / "reference" / "cli.html").read_text()
    assert "GateReport" not in (site / "reference" / "exit-codes.html").read_text()


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_from_disk_and_fits(site: Path, page: Any, name: str) -> None:
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate(OVERFLOW) <= 0, f"{name} is wider than {width} pixels"
    assert page.faults == []


def search(page: Any, site: Path, words: str) -> list[str]:
    """Type words into the search of the site and return the pages it finds, best first."""
    page.goto((site / "search.html").as_uri())
    page.evaluate("words => { location.href = 'search.html?q=' + encodeURIComponent(words); }", words)
    page.wait_for_function(
        "document.querySelector('#search-results .search-summary')?.textContent.match(/found|finished/i)"
    )
    page.wait_for_function("document.querySelectorAll('#search-results li').length > 0")
    addresses = [address.split("?")[0].split("#")[0].removesuffix(".html") for address in page.evaluate(RESULTS)]
    return list(dict.fromkeys(addresses))


@pytest.mark.thorough
@pytest.mark.browser
def test_the_search_finds_advantage(site: Path, page: Any) -> None:
    assert "explanation/metrics-and-verdicts" in search(page, site, "advantage")[:10]
    assert page.faults == []


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize("question", ANSWERS)
def test_a_page_that_answers_is_found_first_or_second(site: Path, page: Any, question: str) -> None:
    pages = search(page, site, question)
    assert set(pages[:2]) & set(ANSWERS[question]), pages[:5]
