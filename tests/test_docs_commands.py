"""Commands and options that the pages name exist: nothing is run here, only read. A renamed option fails a test."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from page_blocks import Block, list_blocks, list_pages
from sessions import split_commands

from recveil.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
MAX_NOT_RUN = 16
GROUP = typer.main.get_command(app)
PAGES = list_pages()
BLOCKS = [block for page in PAGES for block in list_blocks(page)]
COMMANDS = [
    pytest.param(line, id=f"{block.page}:{block.line}")
    for block in BLOCKS
    if block.language == "sh"
    for line in split_commands(block.code)
]
INLINE = re.compile(r"`([^`\n]+)`")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
OTHER_OPTIONS = {"--no-deps", "--require-hashes", "--no-build-isolation"}


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """Find the command that the words name, and the words that are left for it."""
    command: Any = GROUP
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def list_options(command: Any) -> set[str]:
    own = {name for param in getattr(command, "params", []) for name in (*param.opts, *param.secondary_opts)}
    return own.union(*(list_options(child) for child in getattr(command, "commands", {}).values())) | {"--help"}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_a_page_can_be_read(line: str) -> None:
    words = shlex.split(line, comments=True)
    words = words[next(i for i, word in enumerate(words) if not re.fullmatch(r"[A-Z_]+=\S*", word)) :]
    if words[0] == "recveil":
        command, rest = find_command(words[1:])
        assert not getattr(command, "commands", {}) or rest in (["--version"], ["--help"]), line
        command.make_context(words[1], rest[: rest.index("&") if "&" in rest else len(rest)])
    elif words[0] == "make":
        assert {word for word in words[1:] if "=" not in word} <= TARGETS, line
    elif words[0] == "pip":
        named = re.findall(r"recveil\[([a-z0-9,]+)\]", line)
        assert {extra for names in named for extra in names.split(",")} <= EXTRAS, line
    elif words[0] == "python" and words[1] != "-m" and words[1] != "small_world.py":
        script = (ROOT / words[1]).read_text()
        assert all(f'"{option}"' in script for option in OPTION.findall(line)), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_in_the_text_of_a_page_exist(page: Path) -> None:
    known = list_options(GROUP) | OTHER_OPTIONS
    scripts = "\n".join(path.read_text() for path in [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("tests/campaign/*.py")])
    offenders = []
    for code in INLINE.findall(page.read_text(encoding="utf-8")):
        allowed = known
        if code.startswith("recveil ") and code.split()[1] in GROUP.commands:  # type: ignore[attr-defined]
            allowed = list_options(find_command(code.split()[1:])[0])
        elif code.startswith("python "):
            continue
        offenders += [
            f"{code}: {option}"
            for option in OPTION.findall(code)
            if option not in allowed and f'"{option}"' not in scripts
        ]
    assert not offenders, "\n".join(offenders)


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    marked = [block for block in BLOCKS if block.reason]
    assert len(marked) <= MAX_NOT_RUN, [f"{block.page}:{block.line}" for block in marked]


def test_a_renamed_option_would_be_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        find_command(["audit"])[0].make_context("audit", ["users.parquet", "--traget", "gender"])


def test_blocks_of_shell_and_python_name_their_language() -> None:
    offenders = [f"{b.page}:{b.line}" for b in BLOCKS if not b.language and _looks_like_a_command(b)]
    assert not offenders, "\n".join(offenders)


def _looks_like_a_command(block: Block) -> bool:
    return bool(re.match(r"(recveil|make|pip|python) |import ", block.code))


def test_inputs_and_hooks_that_the_gate_page_names_exist() -> None:
    import yaml

    page = ROOT / "docs" / "how-to" / "ci-gate.md"
    action, hooks = (yaml.safe_load(block.code) for block in list_blocks(page) if block.language == "yaml")
    known = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    assert set(action[0]["with"]) <= set(known)
    offered = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {hook["id"] for hook in hooks[0]["hooks"]} <= offered
