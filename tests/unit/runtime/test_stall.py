"""A loop that hangs can't say where it hangs: a thread does, also for one that was stopped."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.runtime import stall
from mirrorfleet.runtime.metrics import Metrics
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import RunningProcess
from tests.faultkit.waiting import until, wait_until

if TYPE_CHECKING:
    from pathlib import Path

HANGING = """
import asyncio, contextlib, ctypes, threading
from mirrorfleet.runtime import log, stall
from mirrorfleet.runtime.metrics import Metrics

HANGS_S, LONGER_S = 1.0, 2.5

def shares_out_for_ever():
    {hanging}

async def main():
    watching = asyncio.create_task(stall.watch(Metrics(), HANGS_S))
    await asyncio.sleep(0)
    {ending}
    shares_out_for_ever()
    await asyncio.sleep(HANGS_S)  # a service lives on, and its thread has its turn

log.configure()
asyncio.run(main())
"""
WAITS = "threading.Event().wait(LONGER_S)"
KEEPS_THE_INTERPRETER = "ctypes.PyDLL(None).usleep(int(LONGER_S * 1e6))"
ENDED = """watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching"""
RUNNING = """
import asyncio
from mirrorfleet.runtime import log, stall
from mirrorfleet.runtime.metrics import Metrics

async def main():
    watching = asyncio.create_task(stall.watch(Metrics(), 1.0))
    await asyncio.sleep(0)
    print("watching", flush=True)
    await watching

log.configure()
asyncio.run(main())
"""


pytestmark = pytest.mark.timeout(60)


def _said(hanging: str = WAITS, ending: str = "") -> list[dict[str, object]]:
    command = [sys.executable, "-c", HANGING.format(hanging=hanging, ending=ending)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return [json.loads(line) for line in ran.stderr.splitlines()]


def test_where_a_loop_hangs_is_logged_once() -> None:
    (line,) = (line for line in _said() if line["message"] == stall.LOOP_AWAY)
    assert "in shares_out_for_ever" in str(line["traceback"])


def test_a_call_that_kept_the_interpreter_is_told_when_it_comes_back() -> None:
    said = _said(KEEPS_THE_INTERPRETER)
    (line,) = (line for line in said if line["message"] == stall.PROCESS_AWAY)
    assert "in shares_out_for_ever" in str(line["traceback"])


def test_nothing_is_logged_when_the_watch_has_ended() -> None:
    assert _said(ending=ENDED) == []


def test_a_process_that_was_stopped_says_so_and_goes_on(tmp_path: Path) -> None:
    process = RunningProcess("watch", [sys.executable, "-c", RUNNING], log=tmp_path / "log")
    try:
        wait_until(lambda: "watching" in process.text(), deadline_s=30, what="it to run")
        for _ in range(2):
            before = _times_told(process)
            process.freeze()
            hold_sync(2.0, reason="it stands still for longer than is allowed")
            process.thaw()
            wait_until(
                lambda: _times_told(process) > before,  # noqa: B023 - called before the next turn
                deadline_s=10,
                what="it to tell of it",
            )
        process.terminate()
        assert process.wait_exit(10) == -signal.SIGTERM
    finally:
        process.clean_up()


def _times_told(process: RunningProcess) -> int:
    return process.text().count(stall.PROCESS_AWAY)


async def test_a_machine_that_slept_or_had_its_clock_set_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop's own clock stands still with the machine, so that no timer says it."""
    ahead, looks = [0.0, 0.0, 3_600.0, 3_600.5, 3_600.0], list[int]()

    def ahead_s() -> float:
        looks.append(1)
        return ahead[min(len(looks), len(ahead)) - 1]

    monkeypatch.setattr(stall, "_ahead_s", ahead_s)
    monkeypatch.setattr(stall, "_PAUSE_S", 0.001)
    watching = asyncio.ensure_future(stall.watch(Metrics()))
    await until(lambda: len(looks) > len(ahead), deadline_s=5, what="the watch to look")
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching

    assert [record.getMessage() for record in caplog.records] == [stall.CLOCK_SHIFTED]


async def test_a_watch_that_gets_no_thread_goes_on_and_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was the end of a worker that had no memory left."""

    def refuse(_: threading.Thread) -> None:
        asked.append(1)
        raise RuntimeError("can't start new thread")

    asked: list[int] = []
    monkeypatch.setattr(threading.Thread, "start", refuse)
    watching = asyncio.ensure_future(stall.watch(Metrics()))
    await until(lambda: len(asked) > 1, deadline_s=5, what="the watch to ask for a thread")
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
