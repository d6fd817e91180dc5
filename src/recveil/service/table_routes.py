"""Routes of uploaded tables: what was understood of them, before anything is run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, File, Request, Response, UploadFile
from starlette.exceptions import HTTPException

from recveil.core.errors import UsageError
from recveil.core.files import explain_full_disk
from recveil.service.context import ERRORS, ServiceContext, read_context, refuse_unknown
from recveil.service.documents import ColumnChoice, TableDocument, TableList, TableOverview, TableRecord
from recveil.service.job_queue import INSPECTION_SECONDS, TooManyJobs, run_worker
from recveil.service.job_store import RECORD_NAME, current_time, write_document
from recveil.service.table_inputs import PART_NAMES, find_suffix

__all__ = ["keep_upload", "require_table", "router"]

MAX_LABEL_LETTERS = 100
OVERVIEW_NAME = "overview.json"
Upload = Annotated[UploadFile | None, File()]
_NO_LETTER = re.compile("[^\\w .,()+=@~-]")

router = APIRouter(tags=["tables"], responses={**ERRORS})


@router.post("/tables", status_code=201)
def upload_table(
    request: Request,
    table: Annotated[UploadFile, File(description="User vectors: Parquet, CSV, .npy or safetensors.")],
    attributes: Upload = None,
    ids: Upload = None,
) -> TableDocument:
    """Upload a table of user vectors and, unless it holds them, the attributes; see what was understood."""
    context = read_context(request)
    record = keep_upload(context, table, attributes, ids)
    return _inspect_table(context, record)


@router.get("/tables")
def list_tables(request: Request) -> TableList:
    """List all uploaded tables, the newest first."""
    return TableList(tables=read_context(request).store.list_tables())


@router.get("/tables/{table_id}")
def describe_table(request: Request, table_id: str) -> TableDocument:
    """Return an uploaded table, and what was understood of it."""
    context = read_context(request)
    record = require_table(context, table_id)
    path = context.store.table_folder(record.id) / OVERVIEW_NAME
    if not path.is_file():
        return _inspect_table(context, record)
    overview = TableOverview.model_validate_json(path.read_bytes())
    return _join_overview(record, overview)


@router.put("/tables/{table_id}/columns")
def choose_columns(request: Request, table_id: str, columns: ColumnChoice) -> TableDocument:
    """Say which columns hold ids and vectors; see what is understood then."""
    context = read_context(request)
    record = require_table(context, table_id)
    if context.store.is_table_in_use(record.id):
        raise HTTPException(409, "A job waits or runs on this table. Wait until it is done.")
    record = record.model_copy(update={"columns": columns})
    context.store.add_table(record)
    return _inspect_table(context, record)


@router.delete("/tables/{table_id}", status_code=204)
def remove_table(request: Request, table_id: str) -> Response:
    """Remove an uploaded table from the disk."""
    context = read_context(request)
    record = require_table(context, table_id)
    if context.store.is_table_in_use(record.id):
        raise HTTPException(409, "A job waits or runs on this table. Wait until it is done.")
    context.store.remove_table(record.id)
    return Response(status_code=204)


def require_table(context: ServiceContext, table_id: str) -> TableRecord:
    """Return the table of this id."""
    record = context.store.find_table(table_id)
    if record is None:
        raise refuse_unknown("table")
    return record


def keep_upload(
    context: ServiceContext, table: UploadFile, attributes: UploadFile | None, ids: UploadFile | None
) -> TableRecord:
    """Write the uploaded files under names of our own.

    Raises:
        UsageError: the ending of a file is unknown.
        DataError: the disk is full.
    """
    uploads = dict(zip(PART_NAMES, (table, attributes, ids), strict=True))
    parts = {name: upload for name, upload in uploads.items() if upload is not None and upload.filename}
    if "table" not in parts:
        raise UsageError("The request holds no file `table`. Send one as multipart/form-data.")
    suffixes = {name: find_suffix(upload.filename or "") for name, upload in parts.items()}
    key, folder = context.store.make_table_folder()
    try:
        size = sum(_write_upload(upload, folder / (name + suffixes[name])) for name, upload in parts.items())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    record = TableRecord(
        id=key,
        label=_make_label(parts["table"], "table" + suffixes["table"]),
        attributes_label=_make_label(parts["attributes"], "attributes") if "attributes" in parts else None,
        created=current_time(),
        n_bytes=size,
    )
    context.store.add_table(record)
    return record


def _write_upload(upload: UploadFile, path: Path) -> int:
    with explain_full_disk(Path("the upload")), path.open("xb") as file:
        shutil.copyfileobj(upload.file, file)
        return file.tell()


def _make_label(upload: UploadFile, default: str) -> str:
    """Return the name of an uploaded file for people; it is no path, and nothing on disk is called so."""
    name = re.split(r"[/\\]", upload.filename or "")[-1]
    return _NO_LETTER.sub("_", name).strip(" .-")[-MAX_LABEL_LETTERS:] or default


def _inspect_table(context: ServiceContext, record: TableRecord) -> TableDocument:
    """Let a worker read the table: one that cannot be read, or not in time, ends alone."""
    if not context.inspections.acquire(timeout=30):
        raise TooManyJobs("Other tables are being read. Send the request again.")
    folder = context.store.table_folder(record.id)
    try:
        (folder / OVERVIEW_NAME).unlink(missing_ok=True)
        write_document(folder / RECORD_NAME, record)
        what = "The table could not be read: its worker ended"
        run_worker(context.queue.launch, [str(folder)], folder, what=what, timeout=INSPECTION_SECONDS)
        overview = TableOverview.model_validate_json((folder / OVERVIEW_NAME).read_bytes())
    finally:
        context.inspections.release()
    return _join_overview(record, overview)


def _join_overview(record: TableRecord, overview: TableOverview) -> TableDocument:
    return TableDocument.model_validate({**record.model_dump(), "overview": overview})
