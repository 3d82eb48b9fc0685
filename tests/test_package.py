"""The package as a whole: what importing it costs, and how large its pieces are."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dgn

SOURCES = sorted(Path(dgn.__file__).parent.rglob("*.py"))
SCRIPTS = sorted(
    path for folder in ("benchmarks", "examples") for path in (Path(__file__).parents[1] / folder).glob("*.py")
)
OPTIONAL = ("matplotlib", "numba", "sklearn", "torch_geometric", "triton")


def test_importing_takes_no_optional_dependency() -> None:
    # torch itself may look for Triton; what counts is what dgn adds.
    code = f"""
import sys, torch
before = set(sys.modules)
import dgn
lazy = ("DGNClassifier", "DGNRegressor", "testing", "transforms")
assert all(getattr(dgn, name) for name in dgn.__all__ if name not in lazy)
print([name for name in {OPTIONAL!r} if name in set(sys.modules) - before])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_importing_loads_nothing() -> None:
    code = "import sys, dgn.cli; dgn.cli.make_app(); print('torch' in sys.modules, 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


def test_every_public_name_exists() -> None:
    assert all(hasattr(dgn, name) for name in dgn.__all__)


@pytest.mark.parametrize("path", [*SOURCES, *SCRIPTS], ids=lambda path: "/".join(path.parts[-3:]))
def test_modules_and_functions_stay_small(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 250
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            written = ast.get_docstring(node, clean=False)
            length = (node.end_lineno or 0) - node.lineno + 1 - (written.count("\n") + 1 if written else 0)
            assert length <= 60, node.name
