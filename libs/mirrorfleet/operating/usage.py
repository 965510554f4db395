"""How a command line answers who does not know it, and asks before it changes anything.

Help is an answer, and a mistake names its help.
"""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer.exceptions import TyperException

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.operating.terminal import Output, say

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Where:
    """The estate file and the link; `source` is needed when several copy into `target`."""

    file: Path
    target: str
    source: str | None


class Consent(Enum):
    """Whether somebody has agreed already."""

    ASK = auto()
    GIVEN = auto()


def consented(output: Output, consent: Consent, command: str) -> None:
    """Raises: ConfigError where nobody would be shown what he agrees to."""
    if output is Output.JSON and consent is Consent.ASK:
        hint = f"Say it: {command} --yes -o json."
        raise ConfigError("with -o json nobody is shown the changes, or asked.", hint=hint)


def agreed(question: str, consent: Consent, command: str) -> bool:
    """Somebody's word. Raises: ConfigError where nobody is there to be asked."""
    if consent is Consent.GIVEN:
        return True
    if not sys.stdin.isatty():
        raise ConfigError("nobody is there to be asked.", hint=f"Say it: {command} --yes.")
    with _interruptible():
        return typer.confirm(question)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends a question at once: a loop that runs would only end its task, which waits."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
