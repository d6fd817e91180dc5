"""Every example runs, is short, and says something."""

import re
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


def split_cells(text: str) -> list[str]:
    """Return the code cells of a notebook in the percent format."""
    cells = re.split(r"^# %%", text, flags=re.MULTILINE)[1:]
    return [cell.lstrip("\n") for cell in cells if not cell.startswith(" [markdown]")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_in_a_kernel_and_shows_a_chart_and_a_report(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = [*split_cells((EXAMPLES[0].parent / "notebook.py").read_text()), "result"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output["data"] for cell in book.cells for output in cell.outputs if "data" in output]
    assert any("vega" in str(data) for data in shown[:-1])
    assert "<iframe" in shown[-1]["text/html"]
