"""The language of the code, held by measures: words of the glossary, names, docstrings. Each test lists offenders."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "recveil"
TEXT_SUFFIXES = {".py", ".html", ".css", ".js", ".j2", ".jinja", ".toml", ".md"}
BANNED = ("dealt", "anew", "whom", "mended", "touched", "at hand", "surely seen", "comes furthest")
BANNED_IN_PAGES = ("scratch", "until now", "since that run", "asked for")
MAX_PROSE_WIDTH = 120
MAX_ONE_WORD_SHARE = 0.40
MAX_UNTYPED_DICTS = 30


def list_pages() -> list[Path]:
    site = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    return sorted([*ROOT.glob("*.md"), *site])


def list_texts() -> list[Path]:
    tools = [*(ROOT / "docs" / "_tools").glob("*.py"), *(ROOT / "docs" / "tutorials").glob("*.py")]
    return sorted([*(path for path in SRC.rglob("*") if path.suffix in TEXT_SUFFIXES), *tools, *list_pages()])


def find_words(words: tuple[str, ...], paths: list[Path]) -> list[str]:
    pattern = re.compile(rf"\b(?:{'|'.join(word.replace(' ', '[ _]') for word in words)})\b", re.IGNORECASE)
    return [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := pattern.search(line))
    ]


def test_words_outside_the_glossary_do_not_occur() -> None:
    offenders = [*find_words(BANNED, list_texts()), *find_words(BANNED_IN_PAGES, list_pages())]
    assert not offenders, "\n".join(offenders)


def test_lines_of_prose_are_short() -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} characters"
        for path in list_pages()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MAX_PROSE_WIDTH and not line.lstrip().startswith("|")  # a row of a table cannot be broken
    ]
    assert not offenders, "\n".join(offenders)


@pytest.mark.thorough
def test_most_functions_have_names_of_several_words() -> None:
    names = [
        (f"{path.relative_to(SRC)}:{node.lineno}", node.name)
        for path in sorted(SRC.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__")
    ]
    offenders = [f"{place} {name}" for place, name in names if "_" not in name.strip("_")]
    share = len(offenders) / len(names)
    assert share <= MAX_ONE_WORD_SHARE, f"{share:.0%} of the functions:\n" + "\n".join(offenders)


def test_few_values_are_untyped_dicts() -> None:
    counts = {path: path.read_text(encoding="utf-8").count("dict[str, Any]") for path in sorted(SRC.rglob("*.py"))}
    offenders = [f"{path.relative_to(SRC)}: {count}" for path, count in counts.items() if count]
    assert sum(counts.values()) <= MAX_UNTYPED_DICTS, f"{sum(counts.values())} in all:\n" + "\n".join(offenders)


def test_docstrings_begin_in_the_imperative() -> None:
    pytest.importorskip("ruff")
    command = [sys.executable, "-m", "ruff", "check", "--select", "D401", "--output-format", "concise", str(SRC)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
