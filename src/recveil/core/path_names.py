"""Paths in texts that are passed on: cut to their last component, since folders tell of a machine and its user."""

from __future__ import annotations

import re

__all__ = ["hide_folders", "shorten_document", "shorten_paths"]

_ABSOLUTE_PATH = re.compile(r"(?:file://|~|[A-Za-z]:)?[/\\]")
_PATH_IN_SENTENCE = re.compile(r"(?<![\w./\\:])(?:file://|~|[A-Za-z]:)?[/\\](?:[^\s'\"/\\,;]+[/\\])+([^\s'\"/\\,;]*)")
_FILE_SCHEME = "duckdb:"
"""Scheme of an address that begins with a file of this machine."""

SENTENCE_KEYS = ("advice", "data", "error", "errors", "note", "notes", "sample", "sentence", "use", "warnings")
"""Keys of documents under which recveil writes sentences or names of files; labels of data are never changed."""


def hide_folders(argument: str) -> str:
    """Return the argument; absolute paths in it are cut to their last component."""
    return "".join(_keep_last_component(part) for part in re.split(r"([=,])", argument))


def _keep_last_component(part: str) -> str:
    if part.startswith(_FILE_SCHEME):
        return _FILE_SCHEME + _keep_last_component(part.removeprefix(_FILE_SCHEME))
    if not _ABSOLUTE_PATH.match(part):
        return part
    return re.split(r"[/\\]", part.rstrip("/\\"))[-1]


def shorten_paths(sentence: str) -> str:
    """Return the sentence; absolute paths in it are cut to their last component."""
    return _PATH_IN_SENTENCE.sub(lambda match: match.group(1), sentence)


def shorten_document(value: object, key: str = "") -> object:
    """Return a JSON document; absolute paths in its sentences are cut to their last component."""
    if isinstance(value, dict):
        return {name: shorten_document(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [shorten_document(part, key) for part in value]
    return shorten_paths(value) if isinstance(value, str) and key in SENTENCE_KEYS else value
