"""The command line: one file per verb.

A verb is a module with a function ``command`` that typer can read, named in :data:`VERBS`. Its module imports only
the standard library, typer and rich at the top, and the rest of ``dgn`` inside functions: ``dgn --help`` shows every
verb without loading PyTorch.
"""

import io
import os
import sys
from importlib import import_module
from inspect import getdoc

import typer

from dgn.cli.errors import Verbs

# In the order of the help.
VERBS = ("fit", "predict", "draw", "train", "info", "search", "directions")
HELP = """Directional graph networks.

With a table of molecules: dgn fit TABLE, then dgn predict. Without data: dgn train, which learns handwritten digits. A
first picture: dgn draw CCO --out ethanol.svg"""


def make_app() -> typer.Typer:
    """The application with all verbs."""
    app = typer.Typer(
        name="dgn",
        cls=Verbs,
        help=unwrap(HELP),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for verb in VERBS:
        command = import_module(f"dgn.cli.{verb}").command
        app.command(verb, help=unwrap(getdoc(command) or ""))(command)
    return app


def unwrap(text: str) -> str:
    r"""Paragraphs in one line each: a terminal breaks them by its own width.

    >>> unwrap("One\ntwo.\n\nThree.")
    'One two.\n\nThree.'
    """
    return "\n\n".join(" ".join(part.split("\n")) for part in text.split("\n\n"))


def main() -> None:
    """The entry point ``dgn``."""
    # PyTorch is not loaded yet. Its threads would spin while they wait, which on a busy machine makes small batches
    # many times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # A character that the encoding of a terminal lacks must not be the end of a long run.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
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
