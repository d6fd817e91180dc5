"""Every command and snippet of the README and of the pages runs, in the order of its page, on small files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from page_blocks import list_blocks, list_pages

ROOT = Path(__file__).resolve().parent.parent
IN_CI = {"docs/how-to/ci-gate.md", "docs/how-to/dataframes-and-notebooks.md"}


def list_cases() -> list[object]:
    """List the pages with something to run; two are run by CI, the others by `make test-slow`."""
    pages = [
        str(page.relative_to(ROOT))
        for page in list_pages()
        if any(b.language in ("sh", "python") and not b.executed and not b.reason for b in list_blocks(page))
    ]
    return [pytest.param(page, marks=pytest.mark.thorough if page in IN_CI else pytest.mark.slow) for page in pages]


@pytest.mark.parametrize("page", list_cases())
def test_the_blocks_of_a_page_run(page: str) -> None:
    command = [sys.executable, "docs/_tools/run_page.py", page]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
def test_a_block_that_fails_is_reported() -> None:
    page = ROOT / "docs" / "_build" / "broken.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text("```python\nraise ValueError('broken')\n```\n")
    try:
        done = subprocess.run(
            [sys.executable, "docs/_tools/run_page.py", str(page)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        page.unlink()
    assert done.returncode == 1
    assert "broken.md:1" in done.stdout
