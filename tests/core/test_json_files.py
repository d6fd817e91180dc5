from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from recveil.core.errors import DataError
from recveil.core.json_files import MAX_DEPTH, parse_json, read_json_document, read_json_object


class Note(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    count: int
    share: float = 0.0


BROKEN = {
    "": "Expecting value",
    "{": "Expecting property name",
    '{"count": NaN}': "NaN is not a number",
    '{"count": -Infinity}': "-Infinity is not a number",
    '{"count": 1e400}': "a number is too large",
    f'{{"count": {"9" * 400}}}': "an integer has 400 digits",
    f'{{"count": {"9" * 5_000}}}': "an integer has 5,000 digits",
    "[" * 100_000: "nested too deeply",
    "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2): "nested too deeply",
    '{"a":' * 100_000: "nested too deeply",
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.items(), ids=range(len(BROKEN)))
def test_what_is_not_json_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(text)
    path = tmp_path / "note.json"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"^The note is not a JSON document \(.*{reason}.*\)\. Write it again\.$"):
        read_json_object(path, name="The note", advice="Write it again.")


def test_what_is_json_is_read(tmp_path: Path) -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_json(deep)
    assert parse_json('{"a": [1, 2.5, "NaN", true, null]}') == {"a": [1, 2.5, "NaN", True, None]}
    path = tmp_path / "note.json"
    path.write_text('\ufeff{"count": 3}')
    assert read_json_document(path, Note, name="The note", advice="") == Note(count=3)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"count": "3"}', "damaged .count: Input should be a valid integer"),
        (b'{"count": 3, "x": 1}', "damaged .x: Extra inputs are not permitted"),
        (b"[]", "not a JSON object"),
        (b"\xff{}", "not a JSON document"),
    ],
)
def test_documents_of_another_form_are_refused_in_one_line(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=reason) as caught:
        read_json_document(path, Note, name="The note", advice="Write it again.")
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="The note cannot be read: No such file"):
        read_json_document(tmp_path / "none.json", Note, name="The note", advice="")
