"""What the routes of one service share, and how they answer errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from recveil.core.errors import DataError, RecveilError, UsageError
from recveil.core.path_names import shorten_paths
from recveil.service.documents import ErrorDocument
from recveil.service.guards import Sessions
from recveil.service.job_queue import JobQueue, TooManyJobs
from recveil.service.job_store import JobStore
from recveil.service.prometheus import Measurements
from recveil.service.settings import ServiceSettings

if TYPE_CHECKING:
    from recveil.service.served_map import ServedMap

__all__ = ["ERRORS", "ServiceContext", "answer_error", "read_context", "refuse_unknown"]

MAX_INSPECTIONS = 2
"""Tables that are read at the same time."""

_SENTENCES = {
    400: "The request cannot be read. See /openapi.json for its form.",
    404: "There is nothing at this address. See /openapi.json for what there is.",
    405: "This address does not take such requests. See /openapi.json for what it takes.",
}

ERRORS: Mapping[int | str, dict[str, Any]] = {
    status: {"model": ErrorDocument, "description": text}
    for status, text in {
        400: "The request cannot be read.",
        401: "The token is missing or wrong.",
        403: "The request names another host, or comes from another site.",
        404: "There is no such table or job.",
        405: "The address does not take such requests.",
        409: "The table or job is in another state.",
        413: "The request is too large.",
        415: "The content type is unknown.",
        422: "The content cannot be used.",
        429: "Too many jobs wait or run.",
        503: "A worker was killed.",
    }.items()
}


@dataclass(eq=False)
class ServiceContext:
    """What the routes share."""

    settings: ServiceSettings
    store: JobStore
    queue: JobQueue
    sessions: Sessions
    counts: Measurements
    served: ServedMap | None
    inspections: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(MAX_INSPECTIONS))


def read_context(request: Request) -> ServiceContext:
    """Return what the routes share."""
    context: ServiceContext = request.app.state.context
    return context


def refuse_unknown(kind: str) -> HTTPException:
    """Return the error for an id that the service does not know."""
    return HTTPException(404, f"There is no {kind} of this id. It may have been removed.")


async def answer_error(request: Request, error: Exception) -> JSONResponse:
    """Answer an error with one sentence and its status."""
    status, sentence = 500, "Internal error, which is a fault of recveil. Please report what you sent."
    headers: dict[str, str] = {}
    if isinstance(error, RequestValidationError | ValidationError):
        status, sentence = 422, _describe_validation(error)
    elif isinstance(error, HTTPException):
        is_plain = " " in error.detail and error.detail.endswith(".")
        status = error.status_code
        sentence = error.detail if is_plain else _SENTENCES.get(status, f"The request was refused ({error.detail}).")
        headers = dict(error.headers or {})
    elif isinstance(error, TooManyJobs):
        status, sentence, headers = 429, str(error), {"retry-after": "10"}
    elif isinstance(error, UsageError | DataError):
        status, sentence = 422, str(error)
    elif isinstance(error, RecveilError):
        status, sentence = 503, str(error)
    return JSONResponse({"error": shorten_paths(sentence)}, status, headers)


def _describe_validation(error: RequestValidationError | ValidationError) -> str:
    """Return the first mistake in a request."""
    first = error.errors()[0]
    place = ".".join(str(step)[:50] for step in first["loc"]) or "the request"
    return f"{place}: {str(first['msg'])[:200]}. See /openapi.json for the form of the request."
