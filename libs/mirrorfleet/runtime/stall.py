"""How long the event loop was kept from its work: a number that explains late answers.

A loop that does not come back at all can't say where it is: it holds the process until the broker
puts its member out, and the next one is given the same work. So a thread of the interpreter writes
the tracebacks to stderr when the loop has been away for `HANGS_S`. It asks nothing of the loop.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mirrorfleet.runtime.metric_names import LOOP_LAG, LOOP_TASKS

if TYPE_CHECKING:
    from mirrorfleet.runtime.metrics import Metrics

HANGS_S: Final = 5.0
"""Below the session time-out of the workers' group (6 s), far above any step of ours."""
_LOOKS: Final = 10
_PAUSE_S: Final = 0.1


async def watch(metrics: Metrics, hangs_s: float = HANGS_S) -> None:
    """Publish once a second the latest wake-up of that second, and the tasks; until cancelled.

    While it runs, a hang of `hangs_s` has its tracebacks written to stderr, once a hang.
    """
    loop = asyncio.get_running_loop()
    lag, tasks = metrics.gauge(LOOP_LAG), metrics.gauge(LOOP_TASKS)
    try:
        while True:
            _tell_of_hangs(hangs_s)
            worst = 0.0
            for _ in range(_LOOKS):
                due = loop.time() + _PAUSE_S
                await asyncio.sleep(_PAUSE_S)
                worst = max(worst, loop.time() - due)
            lag.set(worst)
            tasks.set(len(asyncio.all_tasks()))
    finally:
        faulthandler.cancel_dump_traceback_later()


def _tell_of_hangs(hangs_s: float) -> None:
    """Wind up the interpreter's own alarm, instead of the one that was wound up before."""
    if sys.__stderr__ is not None:  # None without a standard error, as under pythonw
        with suppress(RuntimeError):  # no memory for its thread, which may be there again later
            faulthandler.dump_traceback_later(hangs_s, file=sys.__stderr__)
