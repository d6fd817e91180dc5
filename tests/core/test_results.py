"""The documents: they survive JSON unchanged, refuse what they do not know, and follow their published schema."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError

from recveil.core.errors import DataError
from recveil.core.result_parts import ClassTarget, Verdict
from recveil.core.results import AuditResult, CloakResult, Document, json_schema
from recveil.core.types import Estimate

DOCUMENTS = (
    "audit_result",
    "numeric_result",
    "full_result",
    "train_result",
    "membership_result",
    "defended_membership",
    "study_result",
    "membership_study",
    "tune_result",
)


@pytest.fixture(scope="module")
def schemas() -> dict[str, dict[str, object]]:
    return json_schema()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_survives_json_and_follows_its_schema(
    name: str, schemas: dict[str, dict[str, object]], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    document: Document = request.getfixturevalue(name)
    path = tmp_path / "new" / "folder" / "result.json"  # parents are made
    document.write_json(path)
    assert type(document).read_json(path).to_json() == document.to_json()  # absolute paths in sentences are cut
    plain = json.loads(path.read_text())
    assert plain["command"] == document.command
    schema = schemas[type(document).__name__]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(plain, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**plain, "surprise": 1}, schema)


def test_what_is_not_a_number_is_null_in_json_and_not_a_number_again(
    cloak_result: CloakResult, schemas: dict[str, dict[str, object]], tmp_path: Path
) -> None:
    nan = float("nan")
    gender = cloak_result.before["gender"]
    headline = gender.headline.model_copy(update={"auc": Estimate(0.5, nan, nan, 7), "p_value": nan})
    defense = cloak_result.defense.model_copy(update={"displacement": nan})
    before = {"gender": gender.model_copy(update={"headline": headline, "resolution": nan})}
    cloak_result.model_copy(update={"before": before, "defense": defense}).write_json(tmp_path / "r.json")
    plain = json.loads((tmp_path / "r.json").read_text())
    assert plain["before"]["gender"]["headline"]["auc"] == {"value": 0.5, "low": None, "high": None, "n": 7}
    assert plain["before"]["gender"]["headline"]["p_value"] is None
    assert plain["defense"]["displacement"] is None
    back = CloakResult.read_json(tmp_path / "r.json")
    numbers = [
        back.before["gender"].headline.auc.low,
        back.before["gender"].headline.p_value,
        back.defense.displacement,
    ]
    assert all(number != number for number in numbers)
    jsonschema.validate(plain, schemas["CloakResult"])


def test_other_documents_damaged_files_and_unknown_keys_are_refused(audit_result: AuditResult, tmp_path: Path) -> None:
    plain = audit_result.model_dump(mode="json")
    damaged = json.loads(json.dumps(plain))
    damaged["targets"]["gender"]["headline"]["advantage"] = 3
    unknown = json.loads(json.dumps(plain))
    unknown["targets"]["gender"]["surprise"] = 1
    texts = {
        "command": json.dumps({**plain, "command": "cloak"}),
        "schema_version": json.dumps({**plain, "schema_version": 1}),
        "targets.gender.classes.headline.advantage": json.dumps(damaged),
        "surprise": json.dumps(unknown),
        "not a JSON document": "{",
        "NaN is not a number": '{"timings": NaN}',
    }
    for place, text in texts.items():
        (tmp_path / "r.json").write_text(text)
        with pytest.raises(DataError, match=place):
            AuditResult.read_json(tmp_path / "r.json")
    with pytest.raises(DataError, match="cannot be read"):
        AuditResult.read_json(tmp_path / "nothing.json")


def test_documents_cannot_be_changed(audit_result: AuditResult) -> None:
    with pytest.raises(ValidationError):
        audit_result.command_line = []  # type: ignore[misc]


def test_the_verdict_of_several_targets_is_the_gravest(
    audit_result: AuditResult, make_target: Callable[..., ClassTarget]
) -> None:
    def target(accuracy: float, verdict: str) -> ClassTarget:
        return make_target(["a", "b"], {"logistic": accuracy}, verdict)

    def combine(*targets: ClassTarget) -> AuditResult:
        return audit_result.model_copy(update={"targets": {str(i): each for i, each in enumerate(targets)}})

    small, large = target(0.6, "leak"), target(0.8, "leak")
    unclear, clear = target(0.9, "inconclusive"), target(0.51, "none")
    for order in ((clear, unclear, small, large), (large, clear, small, unclear)):
        assert combine(*order).verdict is Verdict.LEAK
        assert combine(*order).headline is large.headline
    assert combine(clear, unclear).verdict is Verdict.INCONCLUSIVE
    assert combine(clear, unclear).headline.advantage.value == pytest.approx(0.8)
    assert combine(clear).verdict == "none"
    with pytest.raises(DataError, match="Nothing was audited"):
        _ = combine().verdict


@pytest.mark.thorough
def test_a_result_shows_itself_as_a_page_and_writes_it(audit_result: AuditResult, tmp_path: Path) -> None:
    audit_result.write_html(tmp_path / "new" / "r.html")
    page = (tmp_path / "new" / "r.html").read_text()
    assert "gender" in page
    assert html.escape(page) in audit_result._repr_html_()


def test_the_defended_table_stands_beside_the_document_and_not_in_it(cloak_result: CloakResult) -> None:
    assert cloak_result.table is None
    with_table = cloak_result.with_table([1, 2])
    assert with_table.table == [1, 2]
    assert with_table.model_dump() == cloak_result.model_dump()


def test_the_published_schema_is_that_of_the_code(schemas: dict[str, dict[str, object]]) -> None:
    """Write it again by: python -m recveil.core.results > docs/reference/results.schema.json."""
    published = Path(__file__).resolve().parents[2] / "docs" / "reference" / "results.schema.json"
    assert json.loads(published.read_text()) == schemas


@pytest.mark.parametrize(("smallest", "mode"), [(9, 0o600), (10, 0o644)])
def test_a_file_with_a_small_class_is_for_its_owner_alone(
    audit_result: AuditResult, smallest: int, mode: int, tmp_path: Path
) -> None:
    name, target = next((name, t) for name, t in audit_result.targets.items() if isinstance(t, ClassTarget))
    counts = dict.fromkeys(target.counts, 100) | {target.labels[0]: smallest}
    changed = audit_result.model_copy(update={"targets": {name: target.model_copy(update={"counts": counts})}})
    former = os.umask(0o022)
    try:
        changed.write_json(tmp_path / "r.json")
    finally:
        os.umask(former)
    assert (tmp_path / "r.json").stat().st_mode & 0o777 == mode
