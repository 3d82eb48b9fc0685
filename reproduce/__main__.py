"""``python -m reproduce``: one command per table, ``results``, ``queue`` and ``package``."""

from inspect import getdoc

import typer

from dgn.cli import unwrap
from dgn.cli.errors import Verbs
from reproduce import __doc__ as about
from reproduce import package, pages, queue, run
from reproduce.cells import TITLES


def make_app() -> typer.Typer:
    """The Typer application with a command per table, ``results``, ``queue`` and ``package``."""
    app = typer.Typer(
        name="reproduce", cls=Verbs, help=about, no_args_is_help=True, pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    for table, title in TITLES.items():
        app.command(table, help=f"{title}: train its cells and print our scores next to the paper's.")(
            run.command_of(table)
        )
    for name, command in (("results", pages.command), ("queue", queue.command), ("package", package.command)):
        app.command(name, help=unwrap(getdoc(command) or ""))(command)
    return app


if __name__ == "__main__":
    make_app()()
