"""A control topic as it is now, through the reader that follows it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.kafka.control import ControlTail

if TYPE_CHECKING:
    from mirrorfleet.config.cluster_settings import ClusterSettings
    from mirrorfleet.kafka.control import ControlRecord


async def read_to_end(
    settings: ClusterSettings, topic: str, *, deadline_s: float = 30.0
) -> list[ControlRecord]:
    """All records up to its end now, in order within each partition. Raises: as `ControlTail`."""
    try:
        async with asyncio.timeout(deadline_s), ControlTail(settings, topic) as tail:
            return await tail.read_to_end()
    except TimeoutError:
        raise DeadlineError(
            f"{settings.alias}: {topic} was not read within {deadline_s:g} s."
        ) from None
