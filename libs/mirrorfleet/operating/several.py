"""One question to several: who cannot answer hides nobody who can."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from mirrorfleet.core.errors import MirrorfleetError, leaf_error
from mirrorfleet.operating.terminal import say_error

T = TypeVar("T")


def ask_each(names: Iterable[str], ask: Callable[[str], T]) -> tuple[list[T], bool]:
    """The answers, and whether there is one of each. Who cannot answer is named on stderr.

    Raises: MirrorfleetError or ExceptionGroup, the last one, when nobody answers.
    """
    answers: list[T] = []
    failed: list[tuple[str, MirrorfleetError | ExceptionGroup]] = []
    for name in names:
        try:
            answers.append(ask(name))
        except (MirrorfleetError, ExceptionGroup) as error:
            failed.append((name, error))
    told = failed if answers else failed[:-1]
    for name, why in told:
        say_error(f"{name}: {leaf_error(why)}")
    if failed and not answers:
        raise failed[-1][1]
    return answers, not failed
