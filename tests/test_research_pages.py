"""Every page of research says by which command, when, at which commit and on which machine it was measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(page for page in (ROOT / "research").rglob("*.md") if page.parent.name != "research")
ORIGIN = re.compile(r"Command: .+ · date: .+ · commit: .+ · machine: .+")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_its_origin_in_one_line_at_the_top(page: Path) -> None:
    assert any(ORIGIN.fullmatch(line) for line in page.read_text(encoding="utf-8").splitlines()[:5])
