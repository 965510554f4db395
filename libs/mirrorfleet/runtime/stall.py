"""How long the event loop was kept from its work: a number that explains late answers.

A loop that does not come back at all can't say where it is: it holds the process until the broker
puts its member out, and the next one is given the same work. So a thread logs where the loop stands
when it has been away for `HANGS_S`. It asks nothing of the loop.

The thread is one of Python, which reads frames under the interpreter's lock. That of
`faulthandler.dump_traceback_later` reads them without: when a process that was stopped goes on (a
machine that slept or was moved), its frames change while they are read, and now and then it ends by
SIGSEGV (python/cpython issues 116008 and 140815). What holds the lock itself, a long call into C,
is told of when it comes back, with the line that called it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.runtime.metric_names import LOOP_LAG, LOOP_TASKS

if TYPE_CHECKING:
    from mirrorfleet.runtime.metrics import Metrics

HANGS_S: Final = 5.0
"""Below the session time-out of the workers' group (6 s), far above any step of ours."""
LOOP_AWAY: Final = "the event loop does not come back"
PROCESS_AWAY: Final = "the process stood still: it was stopped, or one call held the interpreter"
CLOCK_SHIFTED: Final = "the machine slept, or its clock was set"
SHIFT_S: Final = 2.0
"""What NTP corrects while it runs is less."""
_LOOKS: Final = 10
_PAUSE_S: Final = 0.1

_log = logger(__name__)


async def watch(metrics: Metrics, hangs_s: float = HANGS_S) -> None:
    """Publish once a second the latest wake-up of that second, and the tasks; until cancelled.

    While it runs, a hang of `hangs_s` is logged with its traceback, once a hang; so is a machine
    that slept: timers stand still with it, and what follows has no other cause in the log.
    """
    loop = asyncio.get_running_loop()
    lag, tasks = metrics.gauge(LOOP_LAG), metrics.gauge(LOOP_TASKS)
    alarm, ahead_s = _Alarm(hangs_s), _ahead_s()
    try:
        while True:
            worst, was_s, ahead_s = 0.0, ahead_s, _ahead_s()
            if abs(ahead_s - was_s) > SHIFT_S:
                _log.warning(CLOCK_SHIFTED, extra=fields(seconds=round(ahead_s - was_s, 1)))
            for _ in range(_LOOKS):
                alarm.put_off()
                due = loop.time() + _PAUSE_S
                await asyncio.sleep(_PAUSE_S)
                worst = max(worst, loop.time() - due)
            lag.set(worst)
            tasks.set(len(asyncio.all_tasks()))
    finally:
        alarm.end()


def _ahead_s() -> float:
    """By how much the time of day is ahead of what timers go by."""
    return time.time() - time.monotonic()


class _Alarm:
    """Logs where the thread that made it stands when it was not put off for `hangs_s`."""

    def __init__(self, hangs_s: float) -> None:
        self._hangs_s = hangs_s
        self._watched = threading.get_ident()
        self._seen = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread()

    def put_off(self) -> None:
        """The loop is at work."""
        self._seen = time.monotonic()
        if not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="stall", daemon=True)
            with suppress(RuntimeError):  # no memory for it, which may be there again later
                self._thread.start()

    def end(self) -> None:
        """Nothing is told from now on; nobody waits for the thread."""
        self._ended.set()

    def _run(self) -> None:
        asleep, told = self._seen, 0.0
        while not self._ended.wait(self._hangs_s / _LOOKS):
            now, seen = time.monotonic(), self._seen
            if now - asleep >= self._hangs_s:  # this thread was kept from its work, too
                self._tell(PROCESS_AWAY, now - asleep)
            elif now - seen >= self._hangs_s and seen != told:
                told = seen
                self._tell(LOOP_AWAY, now - seen)
            asleep = now

    def _tell(self, what: str, away_s: float) -> None:
        frame = sys._current_frames().get(self._watched)
        stack = "".join(traceback.format_stack(frame))
        _log.error(what, extra=fields(seconds=round(away_s, 1), traceback=stack))
