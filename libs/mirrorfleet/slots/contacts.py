"""Keeping in contact with a source, also with one of whose slots we hold none.

What lanes bring is an answer, too: a source that is read is asked for nothing more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.kafka.answering import answering

if TYPE_CHECKING:
    from mirrorfleet.copying.contact import Contact
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.slots.worker import SourceSide

LOOK_S: Final = 3.0
"""Between two looks."""
ANSWER_S: Final = 5.0
"""For a connection to one broker, and for its answer: one that is late ends the connection, which
other requests have just waited for."""


async def keep(contact: Contact, side: SourceSide, clock: Clock) -> None:
    """Tell `contact` whenever the source has answered; runs until cancelled."""
    node, had = None, side.meters.fetched.value
    while True:
        due_at = clock.monotonic() + LOOK_S
        await asyncio.sleep(LOOK_S)
        contact.slept(max(clock.monotonic() - due_at, 0.0))
        has = side.meters.fetched.value
        is_read, had = has != had, has
        if not is_read:
            found = await answering(side.cluster, node, ANSWER_S)
            if found is None:
                continue
            node = found
        contact.heard(clock.monotonic())
