"""Run tutorials in an empty folder and store their outputs, without times: ``python docs/run_tutorials.py [NAME]``."""

import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat

TUTORIALS = Path(__file__).parent / "tutorials"


def run(path: Path) -> None:
    """Execute a notebook and write it back."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        nbclient.NotebookClient(notebook, timeout=600, record_timing=False, resources=resources).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":  # warnings name paths of this machine
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:] or [path.stem for path in sorted(TUTORIALS.glob("*.ipynb"))]:
        run(TUTORIALS / f"{name}.ipynb")
