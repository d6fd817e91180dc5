"""Run the commands and snippets of pages in a folder with small files: python docs/_tools/run_page.py docs/faq.md ...

Commands run as they are printed, with options added that make audits quick. Blocks under `<!-- not run: reason -->` and
programs other than recveil, python and a few of the system are left out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
from pathlib import Path

from page_blocks import Block, list_blocks
from page_files import write_page_files
from sessions import Session, SnippetFailure, run_warm, split_commands

QUICK = ["--panel", "logistic", "--folds", "3", "--repeats", "1", "--max-repeats", "1"]
EXTRA_WORDS = {
    "audit": QUICK,
    "cloak": QUICK,
    "train": ["--option", "epochs=2"],
    "membership": ["--user-minimum", "5", "--references", "4", "--option", "embedding_size=16"],
    "tune": ["--trials", "2", "--panel", "logistic"],
}
ONE_EPOCH_MODELS = {"puresvd", "als", "itemknn", "dp-cov", "dp-als"}
SYSTEM_PROGRAMS = {"ls", "cat", "head"}
OTHER_PROGRAMS = {"make", "pip", "uvx", "pipx", "docker", "git", "curl", "openssl"}
NEEDS = re.compile(r"# needs: (\w+)")
GATES = {"--fail-if", "--baseline"}


def run_page(page: Path) -> list[str]:
    """Run the blocks of a page in order and return what failed."""
    session, failures = Session(), []
    write_page_files(session.folder)
    os.environ["RECVEIL_DATA"] = str(session.folder / "data")
    try:
        for block in list_blocks(page):
            if block.executed or block.reason or block.language not in ("sh", "python"):
                continue
            try:
                run_block(session, block)
            except SnippetFailure as failure:
                failures.append(f"{block.page}:{block.line}: {failure}")
    finally:
        session.close()
    return failures


def run_block(session: Session, block: Block) -> None:
    """Run one block; Python that needs a package that is not installed is left out."""
    if block.language == "python":
        needed = NEEDS.search(block.code)
        if not needed or importlib.util.find_spec(needed[1]):
            session.run("python", block.code)
        return
    for line in split_commands(block.code):
        words = shlex.split(line, comments=True)
        if words[0] == "recveil":
            run_command(session, words)
        elif words[0] in SYSTEM_PROGRAMS:
            session.run("sh", line)
        elif words[0] not in OTHER_PROGRAMS:
            raise SnippetFailure(f"no rule says how to run '{words[0]}'")


def run_command(session: Session, words: list[str]) -> None:
    """Run a command of recveil with the options that make it quick."""
    name = words[1] if len(words) > 1 else ""
    if name in ("demo", "serve"):
        return  # tests/cli/test_demo.py and tests/service run them
    extra = [] if name == "train" and set(words) & ONE_EPOCH_MODELS else EXTRA_WORDS.get(name, [])
    given = {word for word in words if word.startswith("--")}
    pairs = [
        pair for pair in zip(extra[::2], extra[1::2], strict=True) if pair[0] not in given or pair[0] == "--option"
    ]
    status, output = run_warm([*words, *(word for pair in pairs for word in pair)], session.folder)
    if status not in list_right_codes(name, given):
        raise SnippetFailure(f"exit {status}: {' '.join(words)}\n{output}")


def list_right_codes(name: str, options: set[str]) -> set[int]:
    """List the exit codes that are right: on so few users a self-check may fail, and a gate fail or stay undecided."""
    return {0, 1} if name == "cloak" else {0, 1, 4} if options & GATES else {0}


def main() -> None:
    """Run the pages that are named, and exit 1 if a block failed."""
    failures = [failure for name in sys.argv[1:] for failure in run_page(Path(name).resolve())]
    print("\n".join(failures) or "all blocks ran")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
