"""Blocks of code of the pages: their language, their place, and the reason why one is not run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,})(?P<info>[^`\n]*)$")
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


@dataclass(frozen=True)
class Block:
    """One fenced block; `executed` blocks are run when the site is built."""

    page: str
    line: int
    language: str
    code: str
    executed: bool
    reason: str = ""


def list_pages() -> list[Path]:
    """List the README, the guide for contributors and all pages of the site."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(page for page in pages if "_build" not in page.parts)


def list_blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page with the mark that stands before them, if any."""
    lines = page.read_text(encoding="utf-8").splitlines()
    name = str(page.relative_to(ROOT))
    start: tuple[int, re.Match[str]] | None = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence and start is None:
            start = (number, fence)
        elif fence and start and fence["marks"] == start[1]["marks"] and not fence["info"].strip():
            yield _make_block(name, lines, start[0], number, start[1])
            start = None


def _make_block(name: str, lines: list[str], first: int, last: int, fence: re.Match[str]) -> Block:
    info = fence["info"].strip()
    mark = NOT_RUN.search(lines[first - 1]) if first else None
    body = [line.removeprefix(fence["indent"]) for line in lines[first + 1 : last]]
    executed = info.startswith("{run}")
    if executed:
        body = [line for line in body if not re.fullmatch(r":[a-z-]+:.*", line)]
    language = info.removeprefix("{run}").strip()
    return Block(name, first + 1, language, "\n".join(body) + "\n", executed, mark[1] if mark else "")
