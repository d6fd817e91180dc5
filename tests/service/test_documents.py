"""Documents: what requests may hold."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from recveil.service.documents import ApplyBody, ColumnChoice, JobOptions


def test_defaults_are_those_of_the_command_line() -> None:
    options = JobOptions()
    assert (options.method, options.strength, options.panel, options.seed) == ("auto", 1.0, "fast", 0)


@pytest.mark.parametrize(
    ("model", "content"),
    [
        (JobOptions, {"strength": 1.1}),
        (JobOptions, {"strength": float("nan")}),
        (JobOptions, {"repeats": 0}),
        (JobOptions, {"seed": -1}),
        (JobOptions, {"target": [""]}),
        (JobOptions, {"out": "/tmp/x"}),
        (ColumnChoice, {"id": ""}),
        (ColumnChoice, {"vectors": ["x" * 1_000]}),
        (ApplyBody, {"vectors": [[float("inf")]]}),
    ],
)
def test_what_is_out_of_range_or_unknown_is_refused(model: type, content: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(content)
