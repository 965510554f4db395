"""How long the event loop was kept from its work: a number that explains late answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.runtime.metric_names import LOOP_LAG, LOOP_TASKS

if TYPE_CHECKING:
    from mirrorfleet.runtime.metrics import Metrics

_LOOKS: Final = 10
_PAUSE_S: Final = 0.1


async def watch(metrics: Metrics) -> None:
    """Publish once a second the latest wake-up of that second, and the tasks; until cancelled."""
    loop = asyncio.get_running_loop()
    lag, tasks = metrics.gauge(LOOP_LAG), metrics.gauge(LOOP_TASKS)
    while True:
        worst = 0.0
        for _ in range(_LOOKS):
            due = loop.time() + _PAUSE_S
            await asyncio.sleep(_PAUSE_S)
            worst = max(worst, loop.time() - due)
        lag.set(worst)
        tasks.set(len(asyncio.all_tasks()))
