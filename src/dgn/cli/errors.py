"""Errors on the command line: one clear line, and a traceback only when asked."""

from typing import Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from dgn.cli.display import say

# What input, files, missing packages and failed computations raise; anything else is a bug and shows its traceback.
EXPECTED = (ValueError, TypeError, OSError, ImportError, ArithmeticError, RuntimeError, MemoryError)


class Verbs(TyperGroup):
    """A group of commands that prints an expected error in one line and ends with exit code 1.

    Wrong usage is the parser's business and ends with 2. ``--debug``, or ``DGN_DEBUG=1``, lets errors through.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EXPECTED as problem:
            # The parser's own ways to end (Exit, Abort) are RuntimeErrors too.
            if ctx.params.get("debug") or type(problem).__module__.split(".")[0] in ("click", "typer"):
                raise
            say_error(_tell(problem))
            raise typer.Exit(1) from None


def _tell(problem: BaseException) -> str:
    """The message of an error; what the operating system refused, in words."""
    if isinstance(problem, OSError) and problem.strerror and problem.filename:
        return (
            f"{problem.filename}: expected a place that can be read and written, got '{problem.strerror}'; name "
            "another, or change its rights"
        )
    return str(problem) or type(problem).__name__


def say_error(message: str) -> None:
    """Print one red line, unwrapped, on the error stream."""
    say(Console(stderr=True), Text.assemble(("Error: ", "bold red"), (message, "red")))
