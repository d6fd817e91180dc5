"""The page in a real browser: upload, understand, audit, read the verdict, cloak, download; wide and narrow."""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from recveil.service.job_queue import start_worker
from service.tools import make_table

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
HIDDEN_COLUMNS = "[...document.querySelectorAll('.wide')].filter(box => box.scrollWidth > box.clientWidth + 1).length"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
MILLISECONDS = 400_000
pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def chromium() -> Iterator[Any]:
    needed = {"chromium": shutil.which("chromium"), "playwright": importlib.util.find_spec("playwright")}
    missing = [name for name, place in needed.items() if not place]
    if missing:
        if os.environ.get("RECVEIL_REQUIRE_BROWSER") == "1":
            pytest.fail(f"the browser test needs {missing}, and RECVEIL_REQUIRE_BROWSER=1 forbids skipping it")
        pytest.skip(f"the browser test needs {missing}")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, fetched into a cache."""
    folder = Path(os.environ.get("RECVEIL_TEST_CACHE") or Path.home() / ".cache" / "recveil-tests")
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        if shutil.which("npm") is None:
            pytest.skip("axe-core needs npm")
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["npm", "install", "--prefix", str(folder), "axe-core"], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("axe-core could not be fetched")
    return script.read_text(encoding="utf-8")


def list_findings(page: Any, script: str) -> list[str]:
    """Return the serious findings of axe-core; it is evaluated by the debugger, which the page's policy allows."""
    page.evaluate(script)
    found = page.evaluate("axe.run(document, {iframes: false}).then(result => result.violations)")
    grave = [violation for violation in found if violation["impact"] in ("serious", "critical")]
    return [f"{v['id']}: {v['help']} {[node['html'][:120] for node in v['nodes'][:3]]}" for v in grave]


def run_flow(page: Any, address: str, path: Path, *, axe: str, screenshots: Path | None) -> bytes:
    """Go the whole way; return the downloaded table."""
    page.set_default_timeout(MILLISECONDS)
    page.goto(address)
    page.set_input_files("#table-file", str(path))
    page.click("#upload-form button")
    page.wait_for_selector("#audit-form", state="visible")
    assert "160" in page.inner_text("#facts")
    assert "5 undisclosed" in page.inner_text("#facts")
    assert list_findings(page, axe) == []
    page.select_option("#panel", "fast")
    page.click("#run-audit")
    page.wait_for_selector("#verdicts .verdict")
    assert "gender: leak" in page.inner_text("#verdicts")
    assert "recveil audit" in page.inner_text("#command")
    frame = page.frame_locator("#report")
    frame.locator("h1, h2").first.wait_for()
    page.select_option("#method", "gaussian")
    page.fill("#strength", "0.9")
    page.click("#run-cloak")
    page.wait_for_selector("#download")
    assert "before" in page.inner_text("#verdicts")
    assert page.locator("#frontier-chart circle").count() >= 2
    assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate(HIDDEN_COLUMNS) == 0
    assert list_findings(page, axe) == []
    if screenshots is not None:
        page.screenshot(path=str(screenshots), full_page=True)
    with page.expect_download() as download:
        page.click("#download")
    return Path(download.value.path()).read_bytes()


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_a_table_goes_from_upload_to_download(
    chromium: Any, live_service: Callable[..., str], tmp_path: Path, axe: str, width: int, scheme: str
) -> None:
    address = live_service(launch=start_worker)
    path = tmp_path / "users.parquet"
    path.write_bytes(make_table())
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    troubles: list[str] = []
    outside: list[str] = []
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "request", lambda request: None if request.url.startswith((address, "data:")) else outside.append(request.url)
    )
    folder = os.environ.get("RECVEIL_SCREENSHOTS")
    shot = Path(folder) / f"page-{width}.png" if folder else None
    table = pq.read_table(io.BytesIO(run_flow(page, address, path, axe=axe, screenshots=shot)))
    page.close()
    assert table.column_names == ["user_id", "embedding"]
    assert table.num_rows == 160
    assert troubles == []
    assert outside == []
