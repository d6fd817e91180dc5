"""A block for the model card of a published model (Hugging Face): what was audited, and what attackers reached."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from recveil.core.errors import UsageError
from recveil.core.result_parts import ClassTarget, NumericTarget
from recveil.core.results import AuditResult, CloakResult, TrainResult
from recveil.report.formatting import format_text, redact_sentence

__all__ = ["ModelCardBlock", "model_card_block"]

SIGNS_OF_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~$:@])")


@dataclass(frozen=True)
class ModelCardBlock:
    """Metadata for the head of a card (`model-index`) and a section for its text; as text, a whole small card."""

    metadata: Mapping[str, object]
    text: str

    @property
    def yaml(self) -> str:
        """The metadata as YAML; JSON is a part of YAML, so no text from the data can break out of it."""
        return "\n".join(f"{key}: {json.dumps(value)}" for key, value in self.metadata.items())

    def __str__(self) -> str:
        return f"---\n{self.yaml}\n---\n\n{self.text}"


def model_card_block(result: AuditResult | CloakResult | TrainResult) -> ModelCardBlock:
    """Make the block of a model card from a result.

    Class sizes and users are not named; texts from the data are escaped.

    Args:
        result: the result of an attribute audit.

    Raises:
        UsageError: nothing was audited.

    Example:
        >>> import numpy as np, recveil as rv
        >>> y = np.arange(200) % 2
        >>> X = np.random.default_rng(0).normal(size=(200, 4)) + 2 * y[:, None]
        >>> block = rv.model_card_block(rv.audit(X, y, target="gender", panel="logistic", repeats=1, details=False))
        >>> block.text.splitlines()[0]
        '## Privacy audit'
    """
    if not result.targets:
        raise UsageError("Nothing was audited, so a model card has nothing to say. Audit the model first.")
    lines = [
        "## Privacy audit",
        "",
        f"Audited with recveil {result.recveil_version} on {result.input.n_users:,} users: can an attacker who sees "
        f"the {_escape(_name_surface(result))} infer these attributes?",
        "",
        "| attribute | verdict | advantage (0 = guessing, 1 = certain) | 95 % interval |",
        "| --- | --- | --- | --- |",
        *(_write_row(name, target) for name, target in result.targets.items()),
        "",
        *(f"- {_escape(redact_sentence(target.sentence))}" for target in result.targets.values()),
        "",
        "The numbers hold for these attackers and these users. Other attackers may find more.",
        "",
    ]
    return ModelCardBlock({"tags": ["recveil", "privacy-audit"], "model-index": _index(result)}, "\n".join(lines))


def _index(result: AuditResult | CloakResult | TrainResult) -> list[Mapping[str, object]]:
    metrics = [
        {
            "type": "attribute_inference_advantage",
            "name": f"advantage ({format_text(name)})",
            "value": round(target.headline.advantage.value, 4),
        }
        for name, target in result.targets.items()
    ]
    source = format_text(result.input.name)
    data = {"name": source, "type": "private"}
    task = {"type": "other", "name": "attribute inference"}
    return [{"name": source, "results": [{"task": task, "dataset": data, "metrics": metrics}]}]


def _write_row(name: str, target: ClassTarget | NumericTarget) -> str:
    advantage = target.headline.advantage
    interval = f"[{advantage.low:.3f}, {advantage.high:.3f}]"
    return f"| {_escape(name)} | {target.verdict} | {advantage.value:.3f} | {interval} |"


def _name_surface(result: AuditResult | CloakResult | TrainResult) -> str:
    surface = "user vectors" if result.protocol is None else result.protocol.surface
    return surface.replace("_", " ")


def _escape(text: str) -> str:
    """Return text from the data as plain text of Markdown, in one line."""
    return SIGNS_OF_MARKDOWN.sub(r"\\\1", html.escape(" ".join(format_text(text).split()), quote=False))
