"""The command to run next, with the inputs of the command that was typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from recveil.core.results import AuditResult, CloakResult, TrainResult
from recveil.report.formatting import format_text, hide_folders

__all__ = ["AttributeResult", "is_of_lists", "write_command"]

AttributeResult = AuditResult | CloakResult | TrainResult

LIST_SURFACES = ("lists", "list_means", "omissions")
INPUT_OPTIONS = (
    *("--embeddings", "--attributes", "--vectors", "--id", "--ids", "--undisclosed", "--keep-label", "--bins"),
    *("--item-embeddings", "--interactions"),
)
"""Options that say what is read and how, which `audit` and `cloak` share; all take a value."""

FLAGS = ("--json", "--quiet", "--curve", "--joint", "--stream", "--frontier", "--keep-target", "--allow-leak")
"""Options of `audit` and `cloak` that take no value, so that a word after them is the table."""

DEFAULT_INPUT = ["--embeddings", "users.parquet", "--attributes", "attributes.parquet"]
LIST_SOURCES = ["--item-embeddings", "items.parquet", "--interactions", "interactions.parquet"]
"""What lists are made of again where they are defended."""


def is_of_lists(result: AttributeResult) -> bool:
    """Whether lists were audited, not vectors."""
    protocol = result.protocol if isinstance(result, AuditResult) else None
    return protocol is not None and protocol.surface in LIST_SURFACES


def write_command(
    command: str,
    result: AttributeResult,
    targets: Sequence[str],
    *,
    method: str = "",
    strength: float | None = None,
    bins: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> str:
    """Return the command to run next, with the files of this one where they are known."""
    words = ["recveil", command, *_name_input(result), "--target", ",".join(targets)]
    words += ["--method", method] if method else []
    words += ["--strength", f"{strength:g}"] if strength is not None else []
    words += [word for name in bins for word in ("--bins", f"{name}=CUT,CUT")]
    words += ["--out", "defended.parquet"] if command == "cloak" else []
    words += ["--lists-out", "defended-lists.parquet"] if command == "cloak" and is_of_lists(result) else []
    return format_text(shlex.join([*words, *flags, "--report", "report.html"]))


def _name_input(result: AttributeResult) -> list[str]:
    pairs = list(_pair_words([hide_folders(word) for word in result.command_line[2:]]))
    options = dict(pairs)
    if isinstance(result, TrainResult):
        return ["--run", options.get("--out", "RUN")]
    if "--run" in options:
        return ["--run", options["--run"]]
    known = [word for option, value in pairs if option in INPUT_OPTIONS for word in (option, value)]
    if "" in options:
        known = [options[""], *known]
    elif is_of_lists(result) and "--embeddings" not in options:
        known = ["users.parquet", *known]
    elif "--embeddings" not in options:
        return DEFAULT_INPUT
    missing = [] if "--item-embeddings" in options or not is_of_lists(result) else LIST_SOURCES
    return known + missing


def _pair_words(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield options with their values; the table, which has no option, with an empty one."""
    option = ""
    for word in words:
        if word.startswith("--"):
            name, has_value, value = word.partition("=")
            if has_value:
                yield name, value
            option = "" if has_value or name in FLAGS else name
        else:
            yield option, word
            option = ""
