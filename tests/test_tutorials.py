"""The tutorials run from the first cell to the last; what they claim, they assert themselves."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks are run by nbclient, of the extra docs")
nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient, of the extra docs")

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["edge_index", "molecules"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning:zmq", "ignore:.*event loop:DeprecationWarning")
def test_a_tutorial_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(TUTORIALS / f"{name}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_all_tutorials_are_tested() -> None:
    assert sorted(path.stem for path in TUTORIALS.glob("*.ipynb")) == ["edge_index", "molecules"]
