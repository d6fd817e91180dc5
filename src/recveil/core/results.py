"""One typed, versioned document for each command.

The same object is what Python returns, `--json` prints, the report renders and a baseline is read from. Its JSON schema
is published by `json_schema`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, ValidationError

from recveil.core.errors import DataError, MissingExtra
from recveil.core.files import write_atomically
from recveil.core.json_files import describe_mistake, read_json_object
from recveil.core.list_parts import DefendedLists
from recveil.core.membership_parts import (
    FilteredCounts,
    ListDefenseSummary,
    MembershipFindings,
    MembershipFrontier,
    MembershipInput,
    MembershipProtocol,
    MembershipUtility,
)
from recveil.core.path_names import shorten_document
from recveil.core.privacy_parts import EmpiricalEpsilon, PrivacyGuarantee
from recveil.core.rehearsal_parts import Rehearsal
from recveil.core.result_parts import (
    AttributeProtocol,
    ClassTarget,
    DefenseSummary,
    Frontier,
    Headline,
    InputSummary,
    ListAudits,
    NumericHeadline,
    NumericTarget,
    Part,
    PartCounts,
    Target,
    Utility,
    Verdict,
)
from recveil.core.self_check_parts import SelfCheck
from recveil.core.study_parts import (
    CellCounts,
    Failure,
    Figure,
    HeatMap,
    StudyFrontier,
    StudySettings,
    StudyTable,
    TunedAudit,
    TuningTrial,
)
from recveil.core.types import MIN_USERS_SHOWN

__all__ = [
    "SCHEMA_VERSION",
    "AuditResult",
    "CloakResult",
    "Document",
    "MembershipResult",
    "StudyResult",
    "TrainResult",
    "TrainingConfig",
    "TuneResult",
    "json_schema",
]

SCHEMA_VERSION = 2
_SEVERITY = (Verdict.LEAK, Verdict.EXPLAINED, Verdict.INCONCLUSIVE, Verdict.UNKNOWN, Verdict.NONE)


class Document(Part):
    """Base of all documents: which command made it, by which version."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=True)

    schema_version: Literal[2] = 2
    recveil_version: str = Field(default_factory=lambda: version("recveil"))
    command: str
    command_line: list[str] = []
    timings: dict[str, float] = {}
    warnings: list[str] = []

    def to_json(self) -> str:
        """Return the document as JSON; absolute paths in its sentences are cut to file names."""
        return json.dumps(shorten_document(self.model_dump(mode="json")), indent=2, allow_nan=False) + "\n"

    def write_json(self, path: str | Path) -> None:
        """Write the document as JSON, whole or not at all; one with small classes for its owner alone."""
        with write_atomically(path, private=self.has_small_classes) as temporary:
            temporary.write_text(self.to_json(), encoding="utf-8")

    @property
    def has_small_classes(self) -> bool:
        """Whether the document holds numbers of a class of so few users that a page would not show them."""
        return False

    @classmethod
    def read_json(cls, path: str | Path) -> Self:
        """Read a document of this type; another type, version or a damaged file is an error.

        Raises DataError if the file is no such document.
        """
        kind = f"{cls.__name__} of schema {SCHEMA_VERSION}"
        content = read_json_object(path, name=str(path), advice=f"Name a {kind}.")
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise DataError(f"{path} is not a {kind}: {describe_mistake(error)}.") from None

    def to_html(self) -> str:
        """Return the report as one self-contained page."""
        # Results render themselves in notebooks. The page lives above this layer, so it is looked up by name.
        return str(import_module("recveil.report.html").render(self))

    def write_html(self, path: str | Path) -> None:
        """Write the report page, whole or not at all."""
        page = self.to_html()
        with write_atomically(path) as temporary:
            temporary.write_text(page, encoding="utf-8")

    def _repr_html_(self) -> str:
        """Show the report in a notebook, in a frame of its own."""
        return str(import_module("recveil.report.notebook").frame_page(self.to_html()))

    def to_arrow(self) -> Any:
        """Return the numbers of the result as an Arrow table: one row for each number, with its interval."""
        return import_module("recveil.report.numbers").tabulate(self)

    def to_frame(self) -> Any:
        """Return the same as a pandas DataFrame; other libraries take `to_arrow()`."""
        try:
            import_module("pandas")
        except ImportError:
            raise MissingExtra("`to_frame` needs pandas, which is not installed. Use `to_arrow`.") from None
        return self.to_arrow().to_pandas()

    def _plot(self, kind: str, target: str | None = None) -> Any:
        return import_module("recveil.report.notebook").plot_figure(self, kind, target)


class _AttributeDocument(Document):
    """What the results of attribute audits share."""

    input: InputSummary
    protocol: AttributeProtocol | None = None
    targets: dict[str, Target] = {}
    static: dict[str, Target] = {}
    two_releases: dict[str, Target] = {}

    @property
    def has_small_classes(self) -> bool:
        """Whether an audited class has fewer than MIN_USERS_SHOWN users."""
        classes = [target for target in self.targets.values() if isinstance(target, ClassTarget)]
        return any(min(target.counts.values(), default=MIN_USERS_SHOWN) < MIN_USERS_SHOWN for target in classes)

    @property
    def worst_target(self) -> ClassTarget | NumericTarget:
        """The audited attribute with the gravest verdict, and of these with the largest advantage."""
        if not self.targets:
            raise DataError("Nothing was audited, so there is no verdict.")
        return min(self.targets.values(), key=lambda t: (_SEVERITY.index(t.verdict), -t.headline.advantage.value))

    @property
    def verdict(self) -> Verdict:
        """The gravest verdict of all audited attributes."""
        return self.worst_target.verdict

    @property
    def headline(self) -> Headline | NumericHeadline:
        """The headline of the attribute with the gravest verdict."""
        return self.worst_target.headline

    def plot_attacks(self, target: str | None = None) -> Any:
        """Return the advantage of each attacker as an altair chart; of the first attribute if none is named."""
        return self._plot("advantage", target)

    def plot_confusion(self, target: str | None = None) -> Any:
        """Return the guessed against the true classes of the headline attack as an altair chart."""
        return self._plot("confusion", target)

    def plot_leaks(self, target: str | None = None) -> Any:
        """Return the classes along the direction that separates them best as an altair chart."""
        return self._plot("histogram", target)


class AuditResult(_AttributeDocument):
    """What attackers can infer from a table.

    `static` and `two_releases` are attackers who hold an earlier table, where one was given. `rehearsal` is what a
    defense would do for undisclosed users, where one was named.
    """

    command: Literal["audit"] = "audit"
    rehearsal: Rehearsal | None = None


class CloakResult(_AttributeDocument):
    """A defended table: audits before (`before`) and after (`targets`), what it cost, what the lists still tell.

    `defended_lists` are the lists that were written beside it, where they were asked for.
    """

    command: Literal["cloak", "demo"] = "cloak"
    defense: DefenseSummary
    before: dict[str, Target] = {}
    lists: ListAudits | None = None
    defended_lists: DefendedLists | None = None
    utility: Utility | None = None
    frontier: Frontier | None = None
    counts: dict[str, dict[str, int]] | None = None
    parts: PartCounts | None = None
    self_check: SelfCheck | None = None
    rehearsal: Rehearsal | None = None
    _table: Any = PrivateAttr(default=None)

    def plot_frontier(self) -> Any:
        """Return privacy against cost of all methods as an altair chart, where the frontier was measured."""
        return self._plot("frontier")

    @property
    def table(self) -> Any:
        """The defended table, where it was made in Python; no document holds it."""
        return self._table

    def with_table(self, table: Any) -> Self:
        """Return the result with the defended table beside it."""
        copy = self.model_copy()
        copy._table = table
        return copy


class TrainingConfig(Part):
    """What was trained on what, with which defense.

    `profile` is the paper whose options the model has; `protocol` is what was held out and how it was ranked.
    """

    data: str
    model: str
    options: dict[str, Any]
    defense: DefenseSummary | None = None
    profile: str = ""
    protocol: str = "leave-one-out"
    split: str
    k: int
    seed: int


class TrainResult(_AttributeDocument):
    """A trained recommender; with a defense, the audits of the undefended and of the defended model as well.

    `privacy` is the guarantee of a model that has one.
    """

    command: Literal["train"] = "train"
    config: TrainingConfig
    utility: Utility
    before: dict[str, Target] = {}
    stopped: str | None = None
    privacy: PrivacyGuarantee | None = None


class MembershipResult(Document, MembershipFindings):
    """Whether the users that a recommender was trained on can be told; `before` and `static` compare a defense.

    `privacy` is the guarantee of a target that has one, `empirical_epsilon` what the best attack proves beside it.
    `advice` says what to do, from the verdict and from the `frontier` where it was measured.
    `demonstration` names a published mistake that was committed on purpose; such a result says nothing of privacy.
    """

    command: Literal["membership"] = "membership"
    input: MembershipInput
    protocol: MembershipProtocol
    filtered: FilteredCounts | None = None
    utility: MembershipUtility | None = None
    defense: ListDefenseSummary | None = None
    before: MembershipFindings | None = None
    static: MembershipFindings | None = None
    privacy: PrivacyGuarantee | None = None
    empirical_epsilon: EmpiricalEpsilon | None = None
    frontier: MembershipFrontier | None = None
    advice: list[str] = []
    demonstration: str = ""

    def plot_roc(self) -> Any:
        """Return members found against non-members accused as an altair chart."""
        return self._plot("roc")


class StudyResult(Document):
    """Tables, frontiers, wins and advice of a study, as far as it was run."""

    command: Literal["study"] = "study"
    name: str
    size: str
    kind: Literal["attribute", "membership"]
    title: str
    source: str
    about: str
    cells: CellCounts
    failures: list[Failure] = []
    settings: StudySettings
    k: int | None = None
    tables: list[StudyTable] = []
    frontiers: list[StudyFrontier] = []
    volumes: StudyTable | None = None
    wins: StudyTable | None = None
    heats: list[HeatMap] = []
    advice: list[str] = []
    figures: list[Figure] = []


class TuneResult(Document):
    """Settings of a defense that a search tried, the frontier among them, and the audit of the chosen one."""

    command: Literal["tune"] = "tune"
    data: str
    model: str
    model_options: dict[str, Any] = {}
    defense: str
    target: str
    budget: float
    panel: str
    seed: int
    n_failed: int = 0
    trials: list[TuningTrial]
    frontier: list[TuningTrial]
    chosen: TuningTrial | None = None
    audit: TunedAudit | None = None
    use: str | None = None


def json_schema() -> Mapping[str, object]:
    """Return the JSON schemas of all documents by the name of their command."""
    documents = (AuditResult, CloakResult, TrainResult, MembershipResult, StudyResult, TuneResult)
    return {document.__name__: document.model_json_schema(mode="serialization") for document in documents}


if __name__ == "__main__":  # the published schema: python -m recveil.core.results
    print(json.dumps(json_schema(), indent=1, sort_keys=True))  # noqa: T201
