"""Routes of jobs: audits and cloaks of uploaded tables, their progress, results, reports and defended tables."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, File, Form, Request, Response, UploadFile
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

from recveil.core.errors import UsageError
from recveil.service.context import ERRORS, ServiceContext, read_context, refuse_unknown
from recveil.service.documents import JobDocument, JobKind, JobList, JobOptions, JobRecord, JobState
from recveil.service.job_store import ACTIVE_STATES, RESULT_NAME
from recveil.service.table_inputs import find_part
from recveil.service.table_routes import keep_upload, require_table

__all__ = ["router"]

REPORT_NAME, CLOAKED_NAME = "report.html", "cloaked"
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'; sandbox"
)
"""A report holds no script; should one slip in, it does not run."""

Upload = Annotated[UploadFile | None, File()]
Targets = Annotated[str, Form(description="Attributes between commas; all with classes if empty.", max_length=10_000)]
TableId = Annotated[str | None, Form(description="Id of an uploaded table, in place of the files.")]
Panel = Annotated[str, Form(description="Attacker panel, or attacks between commas.", min_length=1, max_length=200)]
Repeats = Annotated[int, Form(description="Repeats of cross-validation.", ge=1, le=100)]
Seed = Annotated[int, Form(ge=0, le=2**32 - 1)]

router = APIRouter(tags=["jobs"], responses={**ERRORS})


@router.post("/audit", status_code=202, response_model=JobDocument)
def start_audit(
    request: Request,
    table: Upload = None,
    attributes: Upload = None,
    table_id: TableId = None,
    target: Targets = "",
    panel: Panel = "fast",
    repeats: Repeats = 2,
    seed: Seed = 0,
) -> Response:
    """Audit a table: upload it here, or name one that was uploaded."""
    options = JobOptions(target=_parse_names(target), panel=panel, repeats=repeats, seed=seed)
    return _start_job(request, "audit", (table, attributes, table_id), options)


@router.post("/cloak", status_code=202, response_model=JobDocument)
def start_cloak(
    request: Request,
    table: Upload = None,
    attributes: Upload = None,
    table_id: TableId = None,
    target: Targets = "",
    method: Annotated[str, Form(min_length=1, max_length=100)] = "auto",
    strength: Annotated[float, Form(ge=0, le=1, allow_inf_nan=False)] = 1.0,
    frontier: Annotated[bool, Form()] = False,
) -> Response:
    """Defend a table and audit it before and after: upload it here, or name one that was uploaded."""
    options = JobOptions(target=_parse_names(target), method=method, strength=strength, frontier=frontier)
    return _start_job(request, "cloak", (table, attributes, table_id), options)


@router.get("/jobs")
def list_jobs(request: Request) -> JobList:
    """List all jobs, the newest first."""
    return JobList(jobs=read_context(request).store.list_jobs())


@router.get("/jobs/{job_id}", response_model=JobDocument)
def describe_job(request: Request, job_id: str) -> Response:
    """Return a job with its progress or, when it is done, its result."""
    context = read_context(request)
    return _answer_job(context, _require_job(context, job_id))


@router.get("/jobs/{job_id}/report", response_class=Response)
def show_report(request: Request, job_id: str) -> Response:
    """Return the report of a job as a page."""
    context = read_context(request)
    path = context.store.job_folder(_require_done(context, job_id).id) / REPORT_NAME
    headers = {"content-security-policy": REPORT_POLICY, "x-frame-options": "SAMEORIGIN"}
    return Response(path.read_bytes(), media_type="text/html", headers=headers)


@router.get("/jobs/{job_id}/table", response_class=Response)
def download_table(request: Request, job_id: str) -> Response:
    """Return the defended table of a cloak, in the form of the upload."""
    context = read_context(request)
    record = _require_done(context, job_id)
    path = find_part(context.store.job_folder(record.id), CLOAKED_NAME)
    if path is None:
        raise HTTPException(404, "The job is an audit, which makes no table. Start a cloak.")
    name = f"cloaked-{record.label.rsplit('.', 1)[0]}{path.suffix}"
    return FileResponse(path, filename=name, media_type="application/octet-stream")


@router.delete("/jobs/{job_id}", status_code=204)
def remove_job(request: Request, job_id: str) -> Response:
    """Remove a job and its files from the disk."""
    context = read_context(request)
    record = _require_job(context, job_id)
    if record.state in ACTIVE_STATES:
        raise HTTPException(409, "The job waits or runs. Wait until it is done.")
    context.store.remove_job(record.id)
    return Response(status_code=204)


def _start_job(
    request: Request,
    kind: JobKind,
    source: tuple[UploadFile | None, UploadFile | None, str | None],
    options: JobOptions,
) -> Response:
    context = read_context(request)
    table, attributes, table_id = source
    if (table is None) == (table_id is None):
        raise UsageError("Send either the file `table`, or `table_id` of an uploaded one.")
    if table_id is not None:
        upload = require_table(context, table_id)
    else:
        assert table is not None
        context.queue.check_room()
        upload = keep_upload(context, table, attributes, None)
    record = context.queue.add_job(kind, upload, options)
    return _answer_job(context, record, status=202)


def _answer_job(context: ServiceContext, record: JobRecord, status: int = 200) -> Response:
    """Answer a job; its result is passed on as the worker wrote it."""
    folder = context.store.job_folder(record.id)
    progress = context.store.read_progress(record.id) if record.state is JobState.RUNNING else None
    document = json.loads(record.model_dump_json())
    document["progress"] = None if progress is None else progress.model_dump()
    is_done = record.state is JobState.DONE
    document["result"] = json.loads((folder / RESULT_NAME).read_bytes()) if is_done else None
    headers = {"location": f"/jobs/{record.id}"} if status == 202 else {}
    return Response(json.dumps(document), status, headers=headers, media_type="application/json")


def _require_job(context: ServiceContext, job_id: str) -> JobRecord:
    record = context.store.find_job(job_id)
    if record is None:
        raise refuse_unknown("job")
    return record


def _require_done(context: ServiceContext, job_id: str) -> JobRecord:
    record = _require_job(context, job_id)
    if record.state is not JobState.DONE:
        raise HTTPException(409, f"The job is {record.state}, so there is no result. See /jobs/{record.id}.")
    return record


def _parse_names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if any(len(name) > 200 for name in names):
        raise UsageError("A target has more than 200 letters. Name columns of the table.")
    return names
