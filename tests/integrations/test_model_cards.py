"""The block of a model card: YAML that is read back, Markdown that no name can break."""

from __future__ import annotations

import pytest
import yaml

from documents import *  # noqa: F403
from recveil.core.errors import UsageError
from recveil.core.results import AuditResult
from recveil.integrations.model_cards import model_card_block


def test_the_card_has_the_verdict_and_metadata_that_read_back(audit_result: AuditResult) -> None:
    block = model_card_block(audit_result)
    head, text = str(block).removeprefix("---\n").split("\n---\n")
    metadata = yaml.safe_load(head)
    assert metadata == block.metadata
    (metric,) = [m for m in metadata["model-index"][0]["results"][0]["metrics"] if "gender" in m["name"]]
    advantage = audit_result.targets["gender"].headline.advantage
    assert metric["value"] == round(advantage.value, 4)
    assert f"| gender | leak | {advantage.value:.3f} | [{advantage.low:.3f}, {advantage.high:.3f}] |" in text


def test_texts_from_the_data_break_neither_the_table_nor_the_head(audit_result: AuditResult) -> None:
    hostile = "a | b\n---\n<script>alert(1)</script> [x](javascript:1)"
    target = audit_result.targets["gender"].model_copy(update={"sentence": hostile})
    source = audit_result.input.model_copy(update={"name": hostile})
    block = model_card_block(audit_result.model_copy(update={"targets": {hostile: target}, "input": source}))
    rows = [line for line in block.text.splitlines() if line.startswith("| a ")]
    assert len(rows) == 1
    assert rows[0].replace("\\|", "").count("|") == 5
    assert "<script>" not in block.text
    assert "](" not in block.text
    assert yaml.safe_load(block.yaml) == block.metadata


def test_an_audit_of_nothing_has_no_card(audit_result: AuditResult) -> None:
    with pytest.raises(UsageError, match="Nothing was audited"):
        model_card_block(audit_result.model_copy(update={"targets": {}}))
