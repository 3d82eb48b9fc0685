"""Errors of the command line: one line, and a traceback only with ``--debug``."""

from typing import Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from dgn.cli.display import echo

# Raised by wrong input, files, missing packages and failed computations; anything else is a bug: show its traceback.
EXPECTED = (ValueError, TypeError, OSError, ImportError, ArithmeticError, RuntimeError, MemoryError)

STOPPED = 130  # exit code of a command that Ctrl-C or SIGTERM ended


class Verbs(TyperGroup):
    """A group of commands that prints an expected error in one line and ends with exit code 1.

    Wrong usage ends with 2, by the parser. With ``--debug`` or ``DGN_DEBUG=1``, errors propagate.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as problem:  # whoever knows what was kept says so
            echo(Console(stderr=True), str(problem) or "Stopped.")
            raise typer.Exit(STOPPED) from None
        except EXPECTED as problem:
            # The parser's own Exit and Abort are RuntimeErrors too.
            if ctx.params.get("debug") or type(problem).__module__.split(".")[0] in ("click", "typer"):
                raise
            echo_error(_message(problem))
            raise typer.Exit(1) from None


def _message(problem: BaseException) -> str:
    """The message of an error; one of the operating system with its path and a remedy."""
    if isinstance(problem, OSError) and problem.strerror and problem.filename:
        return (
            f"{problem.filename}: expected a path that can be read and written, got '{problem.strerror}'; choose "
            "another, or change its permissions"
        )
    return str(problem) or type(problem).__name__


def echo_error(message: str) -> None:
    """Print one red line, unwrapped, to stderr."""
    echo(Console(stderr=True), Text.assemble(("Error: ", "bold red"), (message, "red")))
