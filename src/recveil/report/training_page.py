"""What the page of a trained model says beside the audit: what was trained on what, and how it ended."""

from __future__ import annotations

from recveil.core.results import TrainResult
from recveil.report.recommendation import AttributeResult

__all__ = ["list_training_terms"]


def list_training_terms(result: AttributeResult) -> list[tuple[str, str]]:
    """Return the terms of the training; nothing for a result without one."""
    if not isinstance(result, TrainResult):
        return []
    config = result.config
    options = ", ".join(f"{name} {value}" for name, value in config.options.items())
    terms = [
        ("Data", config.data),
        ("Model", f"{config.model} ({options})" if options else config.model),
        ("Split", config.split),
        ("List length", str(config.k)),
        ("Training seed", str(config.seed)),
    ]
    return terms + ([("Training stopped", result.stopped)] if result.stopped else [])
