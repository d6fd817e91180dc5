"""recveil: can an outsider guess who your users are, can they tell whose data you trained on, and what to do about it.

The names below are the public ones; everything else may change. They are imported when first used, so that
`import recveil` costs nothing. The verbs live in modules of their own name: `from recveil.audit import audit`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recveil.core import Attribute, Dataset, Estimate, Record, Release, Scores, Split
    from recveil.data.sources import load
    from recveil.data.split import leave_one_out
    from recveil.data.synthetic import make_world
    from recveil.defenses.embeddings.gaussian import Gaussian
    from recveil.defenses.embeddings.sliced import Sliced
    from recveil.errors import RecveilError
    from recveil.report.html import write_report
    from recveil.verdict import TargetAudit

# Idle OpenMP threads that spin starve whoever shares the machine: beside one busy process, small tensor programs were
# seen to take a hundred times as long. The runtimes read this once, when torch is loaded, so it stands here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HOMES = {
    "Attribute": "core",
    "Dataset": "core",
    "Estimate": "core",
    "Gaussian": "defenses.embeddings.gaussian",
    "Record": "core",
    "RecveilError": "errors",
    "Release": "core",
    "Scores": "core",
    "Sliced": "defenses.embeddings.sliced",
    "Split": "core",
    "TargetAudit": "verdict",
    "leave_one_out": "data.split",
    "load": "data.sources",
    "make_world": "data.synthetic",
    "write_report": "report.html",
}

__all__ = [
    "Attribute",
    "Dataset",
    "Estimate",
    "Gaussian",
    "Record",
    "RecveilError",
    "Release",
    "Scores",
    "Sliced",
    "Split",
    "TargetAudit",
    "leave_one_out",
    "load",
    "make_world",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'recveil' has no attribute '{name}'")
    return getattr(import_module(f"recveil.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
