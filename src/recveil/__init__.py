"""recveil: can an outsider guess who your users are, can they tell whose data you trained on, and what to do about it.

The names below are the public ones; everything else may change. They are imported when first used, so that
`import recveil` costs nothing.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recveil.audits.verdicts import TargetAudit
    from recveil.core.errors import RecveilError
    from recveil.core.types import Attribute, Dataset, Estimate, Record, Release, Scores, Split
    from recveil.data.sources.catalog import load_dataset
    from recveil.data.splits import leave_one_out
    from recveil.data.synthetic import make_world
    from recveil.defenses.embeddings.gaussian import Gaussian
    from recveil.defenses.embeddings.sliced import Sliced
    from recveil.report.html import write_report

# Idle OpenMP threads that spin starve whoever shares the machine: beside one busy process, small tensor programs were
# seen to take a hundred times as long. The runtimes read this once, when torch is loaded, so it stands here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HOMES = {
    "Attribute": "core.types",
    "Dataset": "core.types",
    "Estimate": "core.types",
    "Gaussian": "defenses.embeddings.gaussian",
    "Record": "core.types",
    "RecveilError": "core.errors",
    "Release": "core.types",
    "Scores": "core.types",
    "Sliced": "defenses.embeddings.sliced",
    "Split": "core.types",
    "TargetAudit": "audits.verdicts",
    "leave_one_out": "data.splits",
    "load_dataset": "data.sources.catalog",
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
    "load_dataset",
    "make_world",
    "write_report",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'recveil' has no attribute '{name}'")
    return getattr(import_module(f"recveil.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
