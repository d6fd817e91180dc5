"""Optional packages, imported where they are needed; an error names the extra that has them."""

from __future__ import annotations

import importlib
from typing import Any

from recveil.core.errors import MissingExtra

__all__ = ["import_extra"]


def import_extra(package: str, extra: str, purpose: str) -> Any:
    """Import an optional package.

    Args:
        package: the module to import.
        extra: the extra of recveil that installs it.
        purpose: what it is needed for, as in "read model.h5".

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        name = package.split(".")[0]
        raise MissingExtra(
            f"To {purpose}, the package {name} is needed, which is not installed. "
            f"Install it with: pip install 'recveil[{extra}]'"
        ) from error
