"""A loop that hangs can't say where it hangs: the interpreter's own thread does."""

from __future__ import annotations

import asyncio
import faulthandler
import subprocess
import sys

import pytest

from mirrorfleet.runtime import stall
from mirrorfleet.runtime.metrics import Metrics
from tests.faultkit.waiting import until

HANGING = """
import asyncio, contextlib, threading
from mirrorfleet.runtime import stall
from mirrorfleet.runtime.metrics import Metrics

HANGS_S, LONGER_S = 0.2, 1.0

def shares_out_for_ever():
    threading.Event().wait(LONGER_S)

async def main():
    watching = asyncio.create_task(stall.watch(Metrics(), HANGS_S))
    await asyncio.sleep(0)
    {ending}
    shares_out_for_ever()

asyncio.run(main())
"""
ENDED = """watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching"""


def _said(ending: str) -> str:
    command = [sys.executable, "-c", HANGING.format(ending=ending)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return ran.stderr


def test_a_loop_that_hangs_has_where_it_stands_written_to_stderr() -> None:
    assert "in shares_out_for_ever" in _said(ending="")


def test_nothing_is_written_when_the_watch_has_ended() -> None:
    assert _said(ENDED) == ""


async def test_a_watch_that_gets_no_thread_goes_on_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was the end of a worker that had no memory left."""

    def refuse(*_: object, **__: object) -> None:
        asked.append(1)
        raise RuntimeError("unable to start watchdog thread")

    asked: list[int] = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", refuse)
    watching = asyncio.ensure_future(stall.watch(Metrics()))
    await until(lambda: asked, deadline_s=5, what="the watch to ask for a thread")
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
