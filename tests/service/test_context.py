"""Errors as answers: one sentence each, with the right status."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from recveil.core.errors import DataError, RecveilError, UsageError
from recveil.service.context import answer_error, refuse_unknown
from recveil.service.job_queue import TooManyJobs


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (UsageError("No panel is called 'x'."), 422, "No panel"),
        (DataError("/srv/secret/table.csv is empty."), 422, "table.csv is empty."),
        (TooManyJobs("8 jobs wait."), 429, "8 jobs"),
        (RecveilError("The worker ended."), 503, "worker"),
        (refuse_unknown("job"), 404, "There is no job of this id."),
        (HTTPException(404), 404, "nothing at this address"),
        (HTTPException(405), 405, "does not take such requests"),
        (RuntimeError("secret"), 500, "Internal error"),
    ],
)
def test_each_error_has_its_status_and_no_path(error: Exception, status: int, words: str) -> None:
    request: Any = None
    answer = asyncio.run(answer_error(request, error))
    sentence = json.loads(answer.body)["error"]
    assert answer.status_code == status
    assert words in sentence
    assert "secret" not in sentence
