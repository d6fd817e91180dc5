"""The judge: what every command must keep to, whatever it is given."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from campaign.worker import Ended

MAX_SECONDS = 60.0
EXIT_CODES = (0, 1, 2, 3, 4)
REFUSALS = (2, 3)
"""Exit codes after which nothing may have been written."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
USAGE_FRAME = re.compile(r"^(Usage: .*|Try '.*' for help\.|)$")
"""Lines that Click puts before the sentence of a usage error."""


def list_files(folder: Path) -> dict[str, str]:
    """List all files below a folder with a hash of their bytes; folders and links count as files."""
    return {str(path.relative_to(folder)): _describe_file(path) for path in sorted(folder.rglob("*"))}


OUTPUT_OPTIONS = ("--out", "--report", "--risk-out", "--scores-out", "--junit", "--sarif", "--save-map", "--figures")


def list_replaced(command: Sequence[str]) -> set[str]:
    """List the files that a command was told to write and does not read: such a file may be replaced."""
    named = {
        word: str(Path(value)) for word, value in zip(command, command[1:], strict=False) if word in OUTPUT_OPTIONS
    }
    counts = Counter(str(Path(word)) for word in command)
    return {name for name in named.values() if counts[name] == 1}


def judge_command(ended: Ended, before: dict[str, str], after: dict[str, str], *, keeps_folder: bool) -> list[str]:
    """Return what is wrong with how a command ended; an empty list if nothing is.

    Args:
        ended: how the command ended.
        before: files before it, by `list_files`.
        after: files after it.
        keeps_folder: whether a command may leave and replace results even if it is refused, as a study does.
    """
    faults = []
    if ended.exit_code not in EXIT_CODES:
        faults.append(f"exit {ended.exit_code}")
    if "Traceback (most recent" in ended.stderr + ended.stdout:
        faults.append("traceback")
    if ended.seconds > MAX_SECONDS:
        faults.append("slow")
    if CONTROL.search(ended.stderr + ended.stdout):
        faults.append("control characters")
    return faults + _judge_lines(ended) + _judge_files(ended, before, after, keeps_folder=keeps_folder)


def _judge_lines(ended: Ended) -> list[str]:
    lines = [line for line in ended.stderr.split("\n") if not USAGE_FRAME.match(line)]
    strange = [line for line in lines if not line.startswith(("recveil: ", "Error: "))]
    if strange:
        return ["lines of a library"]
    if ended.exit_code in REFUSALS and len(lines) != 1:
        return [f"{'no' if not lines else 'several'} lines for an error"]
    return []


def _judge_files(ended: Ended, before: dict[str, str], after: dict[str, str], *, keeps_folder: bool) -> list[str]:
    faults = []
    if not keeps_folder and any(after.get(name) != content for name, content in before.items()):
        faults.append("input changed")
    # A work folder that the command names, since the same command goes on from it, is not left behind in secret.
    named = {name for name in after if Path(name).parts[0].startswith(".") and Path(name).parts[0] in ended.stderr}
    added = [name for name in after if name not in before and name not in named]
    hidden = [name for name in added if any(part.startswith(".") for part in Path(name).parts)]
    if hidden:
        faults.append("hidden file left")
    elif added and ended.exit_code in REFUSALS and not keeps_folder:
        faults.append("output left after a failure")
    return faults


def _describe_file(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return "folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
