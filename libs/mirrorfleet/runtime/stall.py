"""How long the event loop was kept from its work: a number that explains late answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.runtime.metric_names import LOOP_LAG

if TYPE_CHECKING:
    from mirrorfleet.runtime.metrics import Metrics

_LOOKS: Final = 10
_PAUSE_S: Final = 0.1


async def watch(metrics: Metrics) -> None:
    """Publish once a second the latest wake-up of that second; runs until cancelled."""
    loop = asyncio.get_running_loop()
    gauge = metrics.gauge(LOOP_LAG)
    while True:
        worst = 0.0
        for _ in range(_LOOKS):
            due = loop.time() + _PAUSE_S
            await asyncio.sleep(_PAUSE_S)
            worst = max(worst, loop.time() - due)
        gauge.set(worst)
