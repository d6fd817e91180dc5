"""Routes of the saved map: `POST /apply` carries vectors, `GET /map` says what the map needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from recveil.core.errors import DataError
from recveil.core.types import FloatArray
from recveil.service.context import ERRORS, ServiceContext, read_context
from recveil.service.documents import ARROW_FILE, ARROW_STREAM, PARQUET, ApplyAnswer, ApplyBody, MapDocument

if TYPE_CHECKING:  # torch is loaded with the map, or not at all
    from recveil.service.served_map import CarriedRows, ServedMap

__all__ = ["router"]

MAX_INLINE_ROWS = 16
"""Vectors that are carried at once, without a thread: that would take longer than the map."""

MAX_NUMBERS_SHOWN = 3
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": ApplyBody.model_json_schema()},
            ARROW_STREAM: _BINARY,
            ARROW_FILE: _BINARY,
            PARQUET: _BINARY,
        },
    }
}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The carried vectors, in the form of the request.", "model": ApplyAnswer}
}

router = APIRouter(tags=["map"])


@router.get("/map", responses={**ERRORS}, response_model=MapDocument)
async def describe_map(request: Request) -> MapDocument:
    """Describe the map that the service applies."""
    return _require_map(read_context(request)).describe()


@router.post("/apply", responses={**ERRORS, **_ANSWERS}, response_model=ApplyAnswer, openapi_extra=_BODY)
async def apply_map(request: Request) -> Response:
    """Carry vectors by the saved map.

    The body is JSON, or a table in Arrow or Parquet with `user_id`, `embedding` and, for a map that needs labels, one
    column for each protected attribute; the answer has the same form.
    """
    context = read_context(request)
    served = _require_map(context)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if kind == "application/json":
        return await _answer_json(context, served, body)
    if kind not in (ARROW_STREAM, ARROW_FILE, PARQUET):
        raise HTTPException(415, f"Send application/json, {ARROW_STREAM}, {ARROW_FILE} or {PARQUET}.")
    from recveil.service.arrow_bodies import carry_table

    allow_drift = request.query_params.get("allow_drift") == "true"
    table, carried = await run_in_threadpool(carry_table, served, body, kind, allow_drift=allow_drift)
    _count_rows(context, carried)
    return Response(table, media_type=kind, headers=_describe_in_headers(carried.unprotected, carried.notes))


async def _answer_json(context: ServiceContext, served: ServedMap, body: bytes) -> Response:
    asked = ApplyBody.model_validate_json(body)
    if len(asked.vectors) <= MAX_INLINE_ROWS:
        carried = _carry_json(served, asked)
    else:
        carried = await run_in_threadpool(_carry_json, served, asked)
    _count_rows(context, carried)
    answer = {"vectors": carried.x.tolist(), "unprotected": carried.unprotected, "notes": carried.notes}
    return Response(to_json(answer), media_type="application/json")


def _carry_json(served: ServedMap, asked: ApplyBody) -> CarriedRows:
    codes = served.encode_labels(asked.labels, len(asked.vectors))
    return served.carry(_build_rows(asked.vectors), codes, allow_drift=asked.allow_drift)


def _build_rows(vectors: list[list[float]]) -> FloatArray:
    lengths = {len(row) for row in vectors}
    if len(lengths) > 1:
        shown = " and ".join(map(str, sorted(lengths)[:MAX_NUMBERS_SHOWN]))
        raise DataError(f"The vectors have {shown} numbers. Give all of them the same number.")
    with np.errstate(over="ignore"):
        x = np.array(vectors, dtype=np.float32)
    if not np.isfinite(x).all():
        raise DataError("A vector holds a number beyond 32-bit floats. Multiply all vectors by one number.")
    return x


def _require_map(context: ServiceContext) -> ServedMap:
    if context.served is None:
        raise HTTPException(404, "The service has no map. Start it with: recveil serve --map FILE.")
    return context.served


def _count_rows(context: ServiceContext, carried: CarriedRows) -> None:
    context.counts.count_rows(len(carried.x), max(carried.unprotected.values(), default=0))


def _describe_in_headers(unprotected: Mapping[str, int], notes: list[str]) -> dict[str, str]:
    """Return what JSON answers say beside the vectors, as headers in ASCII."""
    return {"x-recveil-unprotected": json.dumps(unprotected), "x-recveil-notes": json.dumps(notes)}
