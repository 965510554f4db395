"""How a command line answers who does not know it: help is an answer, a mistake names its help."""

from __future__ import annotations

import typer
from typer.exceptions import TyperException

from mirrorfleet.operating.terminal import say


def command_group(help_text: str) -> typer.Typer:
    """A command of commands. Alone it shows what there is: no mistake, as Typer takes it for."""
    return typer.Typer(
        help=help_text,
        invoke_without_command=True,
        callback=_help_alone,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        add_completion=False,
    )


def _help_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        say(context.get_help())


def mistyped(error: TyperException, program: str) -> str:
    """What is wrong with a command line, and which command's help says how it is written."""
    context: typer.Context | None = getattr(error, "ctx", None)  # the public class has none
    command = program if context is None else context.command_path
    message = error.format_message()
    end = "" if message.endswith((".", "?")) else "."
    return f"{message}{end} See: {command} --help"
