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
MAX_ONE_WORD_SHARE = 0.40
MAX_UNTYPED_DICTS = 30


def list_texts() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted([*(path for path in SRC.rglob("*") if path.suffix in TEXT_SUFFIXES), *pages])


def test_words_outside_the_glossary_do_not_occur() -> None:
    pattern = re.compile(rf"\b(?:{'|'.join(word.replace(' ', '[ _]') for word in BANNED)})\b", re.IGNORECASE)
    offenders = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in list_texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := pattern.search(line))
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
