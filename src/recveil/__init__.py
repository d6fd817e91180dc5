"""recveil audits and defends the privacy of recommenders: attribute inference and membership inference.

The names below are the public ones; everything else may change. They are imported when first used, so that
`import recveil` costs nothing.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recveil.core.errors import RecveilError
    from recveil.core.result_parts import Verdict
    from recveil.core.results import AuditResult, CloakResult, MembershipResult, StudyResult, TrainResult
    from recveil.core.types import Attribute, Dataset, Estimate, Release, Split
    from recveil.data.sources.catalog import load_dataset
    from recveil.data.splits import leave_one_out
    from recveil.data.synthetic import make_world
    from recveil.defenses.embeddings.gaussian import Gaussian
    from recveil.defenses.embeddings.leace import Leace
    from recveil.defenses.embeddings.sliced import Sliced
    from recveil.defenses.embeddings.transformers import load_map
    from recveil.integrations.from_model import from_model
    from recveil.integrations.model_cards import model_card_block
    from recveil.integrations.model_release import ModelRelease
    from recveil.integrations.python_api import audit, cloak, membership, train
    from recveil.integrations.scorers import make_advantage_scorer
    from recveil.integrations.trackers import log_to_mlflow, log_to_wandb

# Idle OpenMP threads that spin starve whoever shares the machine: beside one busy process, small tensor programs were
# seen to take a hundred times as long. The runtimes read this once, when torch is loaded, so it is set here.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_HOMES = {
    "Attribute": "core.types",
    "AuditResult": "core.results",
    "CloakResult": "core.results",
    "Dataset": "core.types",
    "Estimate": "core.types",
    "Gaussian": "defenses.embeddings.gaussian",
    "Leace": "defenses.embeddings.leace",
    "MembershipResult": "core.results",
    "ModelRelease": "integrations.model_release",
    "RecveilError": "core.errors",
    "Release": "core.types",
    "Sliced": "defenses.embeddings.sliced",
    "Split": "core.types",
    "StudyResult": "core.results",
    "TrainResult": "core.results",
    "Verdict": "core.result_parts",
    "audit": "integrations.python_api",
    "cloak": "integrations.python_api",
    "from_model": "integrations.from_model",
    "leave_one_out": "data.splits",
    "load_dataset": "data.sources.catalog",
    "load_map": "defenses.embeddings.transformers",
    "log_to_mlflow": "integrations.trackers",
    "log_to_wandb": "integrations.trackers",
    "make_advantage_scorer": "integrations.scorers",
    "make_world": "data.synthetic",
    "membership": "integrations.python_api",
    "model_card_block": "integrations.model_cards",
    "train": "integrations.python_api",
}

__all__ = [
    "Attribute",
    "AuditResult",
    "CloakResult",
    "Dataset",
    "Estimate",
    "Gaussian",
    "Leace",
    "MembershipResult",
    "ModelRelease",
    "RecveilError",
    "Release",
    "Sliced",
    "Split",
    "StudyResult",
    "TrainResult",
    "Verdict",
    "audit",
    "cloak",
    "from_model",
    "leave_one_out",
    "load_dataset",
    "load_map",
    "log_to_mlflow",
    "log_to_wandb",
    "make_advantage_scorer",
    "make_world",
    "membership",
    "model_card_block",
    "train",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'recveil' has no attribute '{name}'")
    return getattr(import_module(f"recveil.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
