"""Every example runs, is short, and says something."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parent.parent / "examples").glob("*.py"))


@pytest.mark.thorough
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_the_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert path.read_text().count("\n") < 60
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()
