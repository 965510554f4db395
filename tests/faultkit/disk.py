"""A full disk for one broker, without rights: nothing can be written into any file any more.

The kernel refuses each write (EFBIG), which Java gives to the broker as the same IOException as a
full disk (ENOSPC): it takes its log directory offline and, that being its only one, ends. The last
broker of a region is sent no records when the others are gone (`min.insync.replicas`); it finds out
when it writes its high watermarks (`replica.high.watermark.checkpoint.interval.ms`, 5 s). A broker
that is started again has room.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.local.broker import Broker


def fill(broker: Broker) -> None:
    """Refuse the broker each write into a file from now on.

    Raises: ProcessLookupError when it does not run.
    """
    if broker.pid is None:
        raise ProcessLookupError(f"broker {broker.node_id} does not run")
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (0, 0))


def has_ended(broker: Broker) -> bool:
    """Whether the broker is gone, which a full disk makes of it."""
    return broker.pid is None
