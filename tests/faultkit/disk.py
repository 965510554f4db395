"""A full disk for one broker, without rights: no file of its may grow any more.

The kernel refuses each write beyond the limit (EFBIG), which Java gives to the broker as the same
IOException as a full disk (ENOSPC): it takes its log directory offline and, that being its only
one, ends. A broker that is started again has room.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.local.broker import Broker


def fill(broker: Broker) -> int:
    """Let no file of the broker grow beyond half of its largest log; how many bytes that is.

    The logs of busy partitions are beyond it already, so the next append to one is refused.
    """
    logs = (broker.directory / "data").glob("*/*.log")
    limit = max(log.stat().st_size for log in logs) // 2
    if broker.pid is None:
        raise ProcessLookupError(f"broker {broker.node_id} does not run")
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (limit, limit))
    return limit


def has_ended(broker: Broker) -> bool:
    """Whether the broker is gone, which a full disk makes of it."""
    return broker.pid is None
