"""A question before anything is changed."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from mirrorfleet.operating.usage import Consent, agreed


def test_one_interrupt_ends_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop would end its task at the first one, and the task waits for a line."""

    went_on: list[str] = []

    def asks(question: str) -> bool:
        signal.raise_signal(signal.SIGINT)
        went_on.append(question)
        return True

    async def ask() -> bool:
        return agreed("Make these changes?", Consent.ASK, "mirrorfleet apply")

    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda _: True})())
    monkeypatch.setattr("typer.confirm", asks)
    before = signal.getsignal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(ask())

    assert went_on == []
    assert signal.getsignal(signal.SIGINT) is before
