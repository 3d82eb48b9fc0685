"""The package as a whole: what importing it costs, and how large its pieces are."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import dgn

SOURCES = sorted(Path(dgn.__file__).parent.rglob("*.py"))
SCRIPTS = sorted(
    path for folder in ("benchmarks", "examples") for path in (Path(__file__).parents[1] / folder).rglob("*.py")
)
OPTIONAL = ("matplotlib", "numba", "sklearn", "torch_geometric", "triton")


def test_importing_takes_no_optional_dependency() -> None:
    # torch itself may look for Triton; what counts is what dgn adds.
    code = f"""
import sys, torch
before = set(sys.modules)
import dgn
lazy = ("DGNClassifier", "DGNRegressor", "load_experiment", "load_model", "testing", "train_experiment", "transforms")
lazy += ("load_pretrained", "AugmentationSettings", "DataSettings", "Experiment", "TrainingSettings")
lazy += ("nn", "NetworkSettings")  # layers are PyG's MessagePassing, and PyG loads what it finds
assert all(getattr(dgn, name) for name in dgn.__all__ if name not in lazy)
print([name for name in {OPTIONAL!r} if name in set(sys.modules) - before])
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_importing_loads_nothing() -> None:
    code = "import sys, dgn.cli; dgn.cli.make_app(); print('torch' in sys.modules, 'numpy' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["False", "False"]


def test_every_public_name_exists() -> None:
    assert all(hasattr(dgn, name) for name in dgn.__all__)


def test_modules_and_functions_stay_small() -> None:
    """One algorithm may fill a file of 400 lines; a function is questioned at 60, a kernel at 63."""
    too_long = []
    for path in (*SOURCES, *SCRIPTS):
        text, longest = path.read_text(), 63 if "kernels" in path.parts else 60
        if text.count("\n") > 400:
            too_long.append(f"{path}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                doc = ast.get_docstring(node, clean=False)
                length = (node.end_lineno or 0) - node.lineno + 1 - (doc.count("\n") + 1 if doc else 0)
                too_long += [f"{path}: {node.name}, {length} lines"] if length > longest else []
    assert not too_long


def test_no_module_hides_behind_a_function_of_its_package() -> None:
    """``from package import name`` gives the function: a module of the same name could not be imported like that."""
    hidden = []
    for init in Path(dgn.__file__).parent.rglob("__init__.py"):
        package = ".".join(init.parent.relative_to(Path(dgn.__file__).parents[1]).parts)
        if package.startswith("dgn.experiments") or init.parent == Path(dgn.__file__).parent:
            continue
        exported = getattr(importlib.import_module(package), "__all__", ())
        hidden += [f"{package}.{name}" for name in exported if (init.parent / f"{name}.py").exists()]
    assert not hidden
