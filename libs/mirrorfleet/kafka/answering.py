"""Whether a cluster answers where records come from: at the addresses that brokers advertise."""

from __future__ import annotations

import asyncio

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.kafka.call import ready_within
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.opening import negotiate


async def answering(cluster: Cluster, first: int | None, deadline_s: float) -> int | None:
    """A broker that answers; None when none does.

    They are asked in turn, `first` before the others if it is one still. To connect to one may take
    `deadline_s`, and its answer as long again.
    """
    for node in sorted(cluster.brokers, key=lambda one: (one != first, one)):
        if await _answers(cluster, node, deadline_s):
            return node
    return None


async def _answers(cluster: Cluster, node: int, deadline_s: float) -> bool:
    try:
        async with asyncio.timeout(deadline_s):
            connection = await cluster.shared(node)
        await ready_within(connection, deadline_s)  # its login may end just now
        await negotiate(connection, deadline_s)
    except (MirrorfleetError, TimeoutError):
        return False
    return True
