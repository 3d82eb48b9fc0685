"""The tutorials run from the first cell to the last; what they claim, they assert themselves."""

import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks are run by nbclient, of the extra docs")
nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient, of the extra docs")

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"


def words(notebook: Any) -> list[list[str]]:
    """The words of each output, without numbers and warnings, which differ between machines."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output for output in outputs if output.get("name") != "stderr"]
    texts = [output.get("text") or output.get("data", {}).get("text/markdown", "") for output in shown]
    return [re.findall(r"[A-Za-z_]{2,}(?:\.\w+)?", text) for text in texts if text]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["edge_index", "molecules"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq", "ignore:.*event loop:DeprecationWarning")
def test_a_tutorial_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(TUTORIALS / f"{name}.ipynb", as_version=4)
    stored = words(notebook)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert words(notebook) == stored  # else run it again, as CONTRIBUTING.md says


def test_all_tutorials_are_tested() -> None:
    assert sorted(path.stem for path in TUTORIALS.glob("*.ipynb")) == ["edge_index", "molecules"]
