"""The command line: one file per verb.

A verb is a module with a function ``command`` that typer can read, named in :data:`VERBS`. Its module imports only
the standard library, typer and rich at the top, and the rest of ``dgn`` inside functions: ``dgn --help`` shows every
verb without loading PyTorch.
"""

import os
from importlib import import_module

import typer

from dgn.cli.errors import Verbs

# In the order of the help.
VERBS = ("fit", "predict", "draw", "train", "info", "reproduce", "search", "results", "directions")


def make_app() -> typer.Typer:
    """The application with all verbs."""
    app = typer.Typer(
        name="dgn",
        cls=Verbs,
        help="Directional graph networks.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for verb in VERBS:
        app.command(verb)(import_module(f"dgn.cli.{verb}").command)
    return app


def main() -> None:
    """The entry point ``dgn``."""
    # PyTorch is not loaded yet. Its threads would spin while they wait, which on a busy machine makes small batches
    # many times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    make_app()()


def _version(asked: bool) -> None:
    if asked:
        from dgn import __version__

        typer.echo(f"dgn {__version__}")
        raise typer.Exit


def _options(
    debug: bool = typer.Option(False, "--debug", envvar="DGN_DEBUG", help="Show where an error came from."),
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Directional graph networks: vector fields on graphs, and networks that aggregate along them."""
