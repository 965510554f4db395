"""How long copies of a source's heartbeats take, as an ordinary reader of the target sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.kafka.control import ControlTail
from mirrorfleet.records import heartbeat
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from mirrorfleet.config.cluster_settings import ClusterSettings
    from mirrorfleet.core.ports import Clock

_AGAIN_S: Final = 1.0
"""Between two looks for a copy of heartbeats that there is none of yet."""
_log = logger(__name__)


async def follow_beats(
    target: ClusterSettings,
    topic_of: Callable[[], str | None],
    clock: Clock,
    on_beat: Callable[[float, int], None],
) -> None:
    """Call `on_beat` with when (monotonic seconds) each heartbeat came and how long it took (ms),
    for ever. That is a difference of two hosts' clocks: below 0 where its host's is ahead of ours.

    `topic_of` says which topic of the target has the copies, None while there is none.
    """
    while True:
        topic = topic_of()
        if topic is not None:
            try:
                await _read(target, topic, clock, on_beat)
            except MirrorfleetError as error:
                _log.info("no heartbeats", extra=fields(topic=topic, error=str(error)))
        await asyncio.sleep(_AGAIN_S)


async def _read(
    target: ClusterSettings, topic: str, clock: Clock, on_beat: Callable[[float, int], None]
) -> None:
    async with ControlTail(target, topic) as tail:
        is_live = tail.caught_up
        async for record in tail:
            beat = heartbeat.decode(record.key, record.value)
            if is_live and isinstance(beat, heartbeat.Heartbeat):
                on_beat(clock.monotonic(), clock.now_ms() - beat.time_ms)
            is_live = is_live or tail.caught_up  # already with the last one that was there before
