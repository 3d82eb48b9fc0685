"""The documentation site: ``python -m sphinx -W -b html docs dist/site``, then open dist/site/index.html.

It needs no network, neither to build nor to read: formulas are rendered by the KaTeX in ``_static``.
"""

import os
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))
# Threads of PyTorch and Numba that wait for each other make the small networks of the gallery slow on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "dgn"
author = "the authors of dgn"
release = version = installed_version("dgn")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery/*.ipynb", "gallery/*.py", "figures", "tutorials/*/*"]  # the last: what a tutorial writes

# Markdown and notebooks. Anchors are those of a code host, so that one link works in both places.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks hold their outputs, and tests/test_tutorials.py runs them
nb_merge_streams = True
nb_output_stderr = "remove"
nb_render_markdown_format = "gfm"  # outputs have tables

# The reference, from docstrings.
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
python_maximum_signature_line_length = 130
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Shapes", "returns_style"), "Laws"]
add_module_names = False
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("gallery_style.apply",),
    "image_scrapers": ("matplotlib",),
    "thumbnail_size": (560, 380),
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

html_theme = "furo"
html_title = f"dgn {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
mathjax_path = "math.js"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_show_copyright = html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#5e3c99", "color-brand-content": "#5e3c99"},
    "dark_css_variables": {"color-brand-primary": "#b2abd2", "color-brand-content": "#b2abd2"},
}

ARRAY_LIKE = re.compile(
    r"~numpy\._typing\._array_like\._Buffer .*? \| ~numpy\S*_NestedSequence\[complex \| bytes \| str\]"
)
NDARRAY = re.compile(r"~numpy\.ndarray\[tuple\[.*?\], ~numpy\.dtype\[.*?\]\]")

# Pages that are files of the repository's root, and sections that are scripts.
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
BLANK_END = re.compile(
    r"^(```python\n.*?\n)\n+```", re.DOTALL | re.MULTILINE
)  # doctest needs the empty line, readers not
FIGURE, FIRST_CODE = (
    re.compile(r"^\.\. image-sg::.*\n(?:   :.*\n)+", re.MULTILINE),
    ".. GENERATED FROM PYTHON SOURCE LINES",
)
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")


def relink(markdown: str, folder: Path) -> str:
    """Links of a Markdown file in ``folder`` of the repository, as links of a page of the site in ``docs``.

    >>> relink("[a](../CONTRIBUTING.md#map), [b](../examples/own_field.py), [c](../results/)", ROOT / "docs")
    '[a](contributing.md#map), [b](examples.md#own-field), `results`'
    >>> relink("[kernels](docs/kernels.md#memory), [data.md](docs/data.md)", ROOT)
    '[kernels](kernels.md#memory), [](data.md)'
    """

    def replace(match: re.Match[str]) -> str:
        target = (folder / match["path"]).resolve()
        if not target.is_relative_to(ROOT) or not target.exists():
            return match[0]
        path, anchor = target.relative_to(ROOT).as_posix(), match["anchor"] or ""
        if path.startswith("examples/"):
            path, anchor = "docs/examples.md", f"#{target.stem.replace('_', '-')}"
        page = PAGES.get(path, path.removeprefix("docs/"))
        text = "" if match["text"].removeprefix("docs/") == target.name else match["text"]  # Sphinx takes the title
        return f"`{path}`" if target.is_dir() else f"[{text}]({page}{anchor})"

    return LINK.sub(replace, markdown)


def relink_page(app: Any, docname: str, source: list[str]) -> None:
    """Before a page is parsed."""
    if "/" not in docname and app.env.doc2path(docname).suffix == ".md":
        source[0] = BLANK_END.sub("\\1```", relink(source[0], ROOT / "docs"))


def relink_included(app: Any, path: Path, docname: str, source: list[str]) -> None:  # noqa: ARG001, by Sphinx's rule
    """Before a file of the repository's root is included in a page."""
    source[0] = relink(source[0], (ROOT / "docs" / path).resolve().parent)


def show_figure_first(app: Any, docname: str, source: list[str]) -> None:  # noqa: ARG001, by Sphinx's rule
    """Move the figure of a gallery page from below its script to below its introduction."""
    if docname.startswith("gallery/plot_") and (figure := FIGURE.search(source[0])):
        text = source[0].replace(figure[0], "")
        source[0] = text.replace(FIRST_CODE, f"{figure[0]}\n{FIRST_CODE}", 1)


def skip_alias(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:  # noqa: ARG001
    """Leave out fields of named tuples: their class describes them."""
    return True if (getattr(member, "__doc__", "") or "").startswith("Alias for field number") else None


def shorten_arrays(*event: Any) -> tuple[str | None, str | None]:
    """Write NumPy's types in signatures by their names."""

    def shorten(text: str | None) -> str | None:
        return text and NDARRAY.sub("~numpy.ndarray", ARRAY_LIKE.sub("~numpy.typing.ArrayLike", text))

    return shorten(event[-2]), shorten(event[-1])  # signature and what is returned


def setup(app: Any) -> None:
    app.connect("source-read", relink_page)
    app.connect("source-read", show_figure_first)
    app.connect("include-read", relink_included)
    app.connect("autodoc-skip-member", skip_alias)
    app.connect("autodoc-process-signature", shorten_arrays)
