"""``python -m reproduce results``: the page of all results beside the paper's, and what goes into it."""

from pathlib import Path
from typing import Annotated

import typer

from dgn.cli.display import make_console, say

PAGE, README = Path("docs/results.md"), Path("README.md")
BEYOND = "beyond.md"  # beside the page
NOTES, EIGENVECTORS = "notes.yaml", "eigenvectors.yaml"  # beside the results


def command(
    source: Annotated[Path, typer.Option("--from", help="Folder of results, a file for each seed.")] = Path("results"),
    page: Annotated[Path, typer.Option("--to", help="Page to write.")] = PAGE,
    readme: Annotated[
        Path | None,
        typer.Option(help="File with a summary between two markers.", show_default="README.md, where it has them"),
    ] = None,
    collect: Annotated[
        Path | None, typer.Option(metavar="RUNS", help="First take over the finished seeds of these run folders.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Store what is collected under this name; needed for settings of your own.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let what is collected take the place of older results.")
    ] = False,
) -> None:
    """Write the page of all results beside the paper's from result files.

    Runs with other settings than the experiment of their name are refused, unless they get another name.
    """
    from reproduce.results import collect_results

    console = make_console()
    if name is not None and collect is None:
        raise ValueError("--name: expected together with --collect, got it alone; name the runs to collect")
    if collect is not None:
        for path in collect_results(collect, source, name, overwrite):
            say(console, f"{path}")
    for path in write_pages(source, page, readme):
        say(console, f"wrote {path}")


def write_pages(source: Path, page: Path, readme: Path | None) -> list[Path]:
    """Write the page, the tables beyond the paper, their figures and the summary, and return the files."""
    from dgn.training.run_folder import write_text
    from reproduce import augmentation, beyond
    from reproduce.cells import cells
    from reproduce.page import read_notes, results_page
    from reproduce.results import read_results
    from reproduce.summary import BEGIN, replace_summary, results_summary
    from reproduce.times import read_eigenvectors

    results = read_results(source)
    if not results:
        raise FileNotFoundError(f"{source}: expected files NAME/seed-N.json, found none; add some with --collect RUNS")
    texts = {page: results_page(results, read_notes(source / NOTES), read_eigenvectors(source / EIGENVECTORS))}
    if readme is None and README.exists() and BEGIN in README.read_text(encoding="utf-8"):
        readme = README
    if readme is not None:
        texts[readme] = replace_summary(readme.read_text(encoding="utf-8"), results_summary(results), readme)
    told = page.parent / BEYOND
    if told.exists():
        texts[told] = replace_summary(told.read_text(encoding="utf-8"), beyond.beyond_sections(results), told)
    for path, text in texts.items():
        write_text(path, text)
    pictures = [page.parent / each.PICTURE for each in (augmentation, beyond)]
    drawn = (
        augmentation.draw_augmentation(cells("augmentation", "cifar10"), results, pictures[0]),
        told.exists() and beyond.draw_beyond(results, pictures[1]),
    )
    return [*texts, *(picture for picture, is_there in zip(pictures, drawn, strict=True) if is_there)]
