"""Addresses in place of paths: inputs are copied here before a command runs, outputs are copied there afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["OUTPUT_NAMES", "Place", "parse_place", "stage_addresses"]

OUTPUT_NAMES = frozenset({"out", "report", "risk_out", "junit", "sarif", "save_map", "scores_out"})
"""Options that name something to write; all other paths are read."""

_MARKS = (":/", "duckdb:", "postgres:", "postgresql:")

Place = Path | str
"""A path on this machine, or an address."""


def parse_place(place: str | Path) -> Place:
    """Return an address as it was typed, and anything else, such as a default, as a path."""
    text = str(place)
    if any(mark in text for mark in _MARKS):  # addresses need Arrow, which takes its time to load
        from recveil.data.io.addresses import is_address

        if is_address(text):
            return text
    return Path(text)


@contextmanager
def stage_addresses(
    values: Mapping[str, Any], path_options: Collection[str], names: dict[str, str]
) -> Iterator[Mapping[str, Any]]:
    """Yield the options with a local path in place of every address; copy the outputs when the block ends.

    An output that was written is copied whether or not the command failed, as it would be there on this machine.

    Args:
        values: options by name.
        path_options: names of the options that are paths or addresses.
        names: filled with the address of each local path, for errors.
    """
    addresses = {name: values[name] for name in path_options if isinstance(values[name], str)}
    if not addresses:
        yield dict(values)
        return
    from recveil.core.files import make_temporary_folder
    from recveil.data.io.addresses import check_output_address, fetch_address, store_address

    with make_temporary_folder() as folder:
        outputs = {name: value for name, value in addresses.items() if name in OUTPUT_NAMES}
        for address in outputs.values():
            check_output_address(address)
        local: dict[str, Path] = {}
        for name, address in addresses.items():
            # The same address is the same path, so that an output is never one of the inputs.
            place = folder / hashlib.sha256(address.encode()).hexdigest()[:16]
            place.mkdir(exist_ok=True)
            local[name] = place / address.rstrip("/").rsplit("/", 1)[-1]
            if name not in outputs:
                local[name] = fetch_address(address, place)
            names[str(local[name])] = address
        try:
            yield {**values, **local}
        finally:
            for name, address in outputs.items():
                if local[name].exists():
                    store_address(local[name], address)
