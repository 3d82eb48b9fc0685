"""The command line: one module per command.

A command is a module with a typer function ``command``, listed in :data:`COMMANDS`. It imports only the standard
library, typer and rich at the top, and the rest of ``dgn`` inside functions: ``dgn --help`` does not load PyTorch.
"""

import io
import os
import sys
from importlib import import_module
from inspect import getdoc
from multiprocessing import active_children
from typing import NoReturn

import typer

from dgn.cli.errors import STOPPED, Verbs
from dgn.cli.run_seeds import install_sigterm_handler

# In the order of the help.
COMMANDS = ("fit", "predict", "draw", "train", "info", "search", "directions", "export")
HELP = """Directional graph networks.

With a table of molecules: dgn fit TABLE, then dgn predict. Without data: dgn train, which trains on handwritten digits.
A first picture: dgn draw CCO --out ethanol.svg"""


def make_app() -> typer.Typer:
    """The typer application with all commands."""
    app = typer.Typer(
        name="dgn",
        cls=Verbs,
        help=unwrap(HELP),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in COMMANDS:
        command = import_module(f"dgn.cli.{name}").command
        app.command(name, help=unwrap(getdoc(command) or ""))(command)
    return app


def unwrap(text: str) -> str:
    r"""The text with one line per paragraph, which the terminal wraps to its own width.

    >>> unwrap("One\ntwo.\n\nThree.")
    'One two.\n\nThree.'
    """
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in text.split("\n\n"))


def main() -> None:
    """The entry point ``dgn``."""
    # Before PyTorch is loaded: idle OpenMP threads spin by default, which makes small batches many times slower on a
    # busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # A character that the terminal cannot encode must not end a long run.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        install_sigterm_handler()
        make_app()()
    except KeyboardInterrupt:  # before the command began, or after it ended
        typer.echo("Stopped.", err=True)
        _leave_at_once()
    except SystemExit as end:
        if end.code == STOPPED:
            _leave_at_once()
        raise


def _leave_at_once() -> NoReturn:
    """End a command that was stopped: threads and processes that still compute are not waited for."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for child in active_children():
        child.terminate()
    os._exit(STOPPED)


def _version(requested: bool) -> None:
    if requested:
        from dgn import __version__

        typer.echo(f"dgn {__version__}")
        raise typer.Exit


def _options(
    debug: bool = typer.Option(False, "--debug", envvar="DGN_DEBUG", help="Show the traceback of an error."),
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Directional graph networks: vector fields on graphs, and networks that aggregate along them."""
