"""A loop that hangs can't say where it hangs: the interpreter's own thread does."""

from __future__ import annotations

import subprocess
import sys

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
