"""The documentation site is complete: every public name has an entry, every page a place. ``.ci/run`` builds it."""

import importlib
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

import dgn

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGES = (
    *("aggregation", "data", "encodings", "fields", "graph", "nn"),
    *("operators", "spectral", "testing", "transforms"),
)
GALLERY = sorted((ROOT / "examples" / "gallery").glob("*.py"))


def documented() -> set[str]:
    """The full names that the reference describes."""
    pages = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    return set(re.findall(r"^\.\. auto(?:class|data|function):: (\S+)$", pages, re.MULTILINE))


def toctree_entries() -> set[str]:
    """The pages that some toctree names, as paths below docs without suffix."""
    entries = set()
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            names = [re.sub(r".*<(.*)>", r"\1", line) for line in lines]
            entries |= {(page.parent / name).relative_to(DOCS).as_posix() for name in names}
    return entries


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_of_a_package_is_in_the_reference(package: str) -> None:
    names = importlib.import_module(f"dgn.{package}").__all__
    expected = {f"dgn.{name}" if name in dgn.__all__ else f"dgn.{package}.{name}" for name in names}
    assert expected - documented() == set()


def test_every_public_name_of_dgn_is_in_the_reference() -> None:
    names = {f"dgn.{name}" for name in dgn.__all__ if not isinstance(getattr(dgn, name), ModuleType)}
    assert names - documented() == set()


def test_the_reference_names_what_exists() -> None:
    for name in documented():
        home, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(home), last), name


def test_every_page_is_in_a_toctree() -> None:
    built = {"gallery/index"}  # made of examples/gallery
    pages = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for suffix in ("*.md", "*.ipynb")
        for path in DOCS.rglob(suffix)
        if "gallery" not in path.parts
    }
    assert toctree_entries() == (pages | built) - {"index"}


def test_every_example_has_a_section() -> None:
    sections = set(re.findall(r"literalinclude\} \.\./examples/(\S+)", (DOCS / "examples.md").read_text()))
    assert sections == {path.name for path in (ROOT / "examples").glob("*.py")}


def test_gallery_scripts_are_short_and_titled() -> None:
    assert len(GALLERY) >= 10
    for script in GALLERY:
        text = script.read_text()
        assert re.match(r'r"""\n(.+)\n=+\n\n', text), f"{script.name}: a title"
        assert len(text.splitlines()) <= 62, script.name
        assert text.count("plt.show()") == 1, f"{script.name}: one figure"


def test_figures_of_pages_exist() -> None:
    for page in DOCS.glob("*.md"):
        for figure in re.findall(r"\]\((figures/[^)]*)\)", page.read_text()):
            assert (DOCS / figure).exists(), f"{page.name}: {figure}"


def test_formulas_need_no_network() -> None:
    script = (DOCS / "_static" / "math.js").read_text()
    assert "http" not in script
    for name in ("katex.min.js", "katex.min.css", "LICENSE"):
        assert (DOCS / "_static" / "katex" / name).exists()


def test_notebooks_hold_their_outputs() -> None:
    for path in (DOCS / "tutorials").glob("*.ipynb"):
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        assert all(cell["execution_count"] for cell in cells), f"{path.name}: run it, and save it with its outputs"
        assert any(cell["outputs"] for cell in cells)
