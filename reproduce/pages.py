"""``python -m reproduce results``: collect results and write the pages that show them next to the paper's."""

from pathlib import Path
from typing import Annotated

import typer

from dgn.cli.display import echo, make_console

PAGE, README = Path("docs/results.md"), Path("README.md")
BEYOND = "beyond.md"  # in the folder of the page
NOTES, EIGENVECTORS = "notes.yaml", "eigenvectors.yaml"  # in the folder of the results


def command(
    source: Annotated[Path, typer.Option("--from", help="Results folder, one file per seed.")] = Path("results"),
    page: Annotated[Path, typer.Option("--to", help="Page to write.")] = PAGE,
    readme: Annotated[
        Path | None,
        typer.Option(help="File with a summary between two markers.", show_default="README.md, if it has the markers"),
    ] = None,
    collect: Annotated[
        Path | None, typer.Option(metavar="RUNS", help="Collect the finished seeds of these run folders first.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Experiment name for collected results; required for changed settings.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Let collected results replace older ones.")] = False,
) -> None:
    """Write the result pages, our scores next to the paper's, from result files.

    Runs whose settings differ from the shipped experiment of the same name are refused unless --name renames them.
    """
    from reproduce.results import collect_results

    console = make_console()
    if name is not None and collect is None:
        raise ValueError("--name: expected together with --collect, got it alone; add --collect RUNS")
    if collect is not None:
        for path in collect_results(collect, source, name, overwrite):
            echo(console, f"{path}")
    for path in write_pages(source, page, readme):
        echo(console, f"wrote {path}")


def write_pages(source: Path, page: Path, readme: Path | None) -> list[Path]:
    """The files written: the results page, the tables beyond the paper, their figures and the summary."""
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
    beyond_page = page.parent / BEYOND
    if beyond_page.exists():
        text = beyond_page.read_text(encoding="utf-8")
        texts[beyond_page] = replace_summary(text, beyond.beyond_sections(results), beyond_page)
    for path, text in texts.items():
        write_text(path, text)
    pictures = [page.parent / module.PICTURE for module in (augmentation, beyond)]
    drawn = (
        augmentation.draw_augmentation(cells("augmentation", "cifar10"), results, pictures[0]),
        beyond_page.exists() and beyond.draw_beyond(results, pictures[1]),
    )
    return [*texts, *(picture for picture, is_drawn in zip(pictures, drawn, strict=True) if is_drawn)]
