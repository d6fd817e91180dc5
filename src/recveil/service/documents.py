"""Documents that the service takes and answers; the OpenAPI description is made from them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from recveil.core.result_parts import EstimateField, Part, Verdict
from recveil.core.results import AuditResult, CloakResult

__all__ = [
    "ARROW_FILE",
    "ARROW_STREAM",
    "PARQUET",
    "ApplyAnswer",
    "ApplyBody",
    "ColumnChoice",
    "ColumnOverview",
    "ErrorDocument",
    "Finding",
    "HealthDocument",
    "JobDocument",
    "JobKind",
    "JobList",
    "JobOptions",
    "JobProgress",
    "JobRecord",
    "JobState",
    "MapDocument",
    "MethodList",
    "SessionBody",
    "TableDocument",
    "TableList",
    "TableOverview",
    "TableRecord",
]

ARROW_STREAM = "application/vnd.apache.arrow.stream"
ARROW_FILE = "application/vnd.apache.arrow.file"
PARQUET = "application/vnd.apache.parquet"

MAX_NAME_LETTERS = 200
MAX_NAMES = 10_000

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LETTERS)]
Names = Annotated[list[Name], Field(max_length=MAX_NAMES)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
JobKind = Literal["audit", "cloak"]


class ErrorDocument(Part):
    """What went wrong: what was given, what is allowed, what to do."""

    error: str


class ApplyBody(Part):
    """Vectors to carry by the saved map.

    Attributes:
        vectors: one row for each user.
        labels: class of each user by attribute; null for a user who did not disclose it.
        allow_drift: carry the users even if they are not like those of the fit.
    """

    vectors: Annotated[list[Annotated[list[Finite], Field(min_length=1)]], Field(min_length=1)]
    labels: dict[str, list[str | int | None]] | None = None
    allow_drift: bool = False


class ApplyAnswer(Part):
    """Carried vectors, in the order of the request; `unprotected` counts users whose class the map would need."""

    vectors: list[list[float]]
    unprotected: dict[str, int]
    notes: list[str]


class MapDocument(Part):
    """The saved map that the service applies."""

    method: str
    attributes: dict[str, list[str]]
    dimensions: int
    needs_labels: bool
    sentence: str
    drift: str | None


class HealthDocument(Part):
    """Whether the service answers; `map` says whether it applies one."""

    status: Literal["ok"] = "ok"
    version: str
    map: bool
    needs_token: bool


class MethodList(Part):
    """Defenses and attacker panels that jobs can name."""

    defenses: list[str]
    panels: list[str]


class SessionBody(Part):
    """The token, which a browser exchanges for a cookie."""

    token: Annotated[str, Field(max_length=1_000)]


class ColumnChoice(Part):
    """Columns of an uploaded table that have other names than `user_id` and `embedding`.

    Attributes:
        id: column of the ids.
        vectors: column of lists, or one column for each dimension.
        row_numbers: the ids are 0, 1, 2, ... (arrays without ids).
    """

    id: Name | None = None
    vectors: Names = []
    row_numbers: bool = False


class ColumnOverview(Part):
    """One column beside ids and vectors; `counts` holds the largest classes."""

    name: str
    kind: Literal["classes", "number"]
    n_classes: int = 0
    counts: dict[str, int] = {}
    undisclosed: int = 0


class TableOverview(Part):
    """What was understood of an uploaded table; `problem` says why it was not."""

    problem: str | None = None
    n_users: int = 0
    dimensions: int = 0
    id_column: str | None = None
    vector_columns: list[str] = []
    all_columns: list[str] = []
    columns: list[ColumnOverview] = []
    warnings: list[str] = []


class TableRecord(Part):
    """An uploaded table."""

    id: str
    label: str
    attributes_label: str | None = None
    created: str
    n_bytes: int
    columns: ColumnChoice = ColumnChoice()


class TableDocument(TableRecord):
    """An uploaded table, and what was understood of it."""

    overview: TableOverview


class TableList(Part):
    """All uploaded tables, the newest first."""

    tables: list[TableRecord]


class JobState(StrEnum):
    """What became of a job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class JobOptions(Part):
    """What a job does with its table.

    Attributes:
        target: attributes to attack or protect; all with classes if empty.
        panel: attacker panel, or attacks between commas.
        repeats: repeats of cross-validation.
        seed: the same seed gives the same numbers.
        method: defense of a cloak.
        strength: strength of the defense.
        frontier: measure all methods at several strengths as well.
    """

    target: Names = []
    panel: Name = "fast"
    repeats: Annotated[int, Field(ge=1, le=100)] = 2
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    method: Name = "auto"
    strength: Annotated[float, Field(ge=0, le=1)] = 1.0
    frontier: bool = False


class JobProgress(Part):
    """The step that a job is at."""

    label: str
    done: int
    total: int | None = None


class Finding(Part):
    """Verdict and advantage of one attribute; of a cloak after the defense, with those before it."""

    verdict: Verdict
    advantage: EstimateField
    before: EstimateField | None = None


class JobRecord(Part):
    """A job, without its result."""

    id: str
    kind: JobKind
    table: str
    label: str
    state: JobState
    created: str
    finished: str | None = None
    error: str | None = None
    options: JobOptions
    command: str
    findings: dict[str, Finding] = {}
    cost: float | None = None


class JobList(Part):
    """All jobs, the newest first."""

    jobs: list[JobRecord]


class JobDocument(JobRecord):
    """A job with its progress while it runs, and with its result when it is done."""

    progress: JobProgress | None = None
    result: Annotated[AuditResult | CloakResult, Field(discriminator="command")] | None = None
