"""Which partition a broker's late answer waits for.

    leader of P    ... | what we sent, appended |
                       ^ high watermark, and it stands still: too few replicas are in sync

A broker answers a connection's requests in order, and each one when all its partitions are
replicated or its time is up. A partition under its min ISR (then its high watermark stands still,
KIP-966) so holds up all that is behind it for the produce time-out, and its neighbours with it.
What is found here only ends the transaction early; whether the slot goes on without the partition
is decided by its missing marker.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import BrokerError, MirrorfleetError
from mirrorfleet.kafka.inspection import describe_producers
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.wire.k01_fetch import Isolation
from mirrorfleet.wire.rewrite import next_sequence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.inspection import ActiveProducer
    from mirrorfleet.kafka.offsets import ListedOffset
    from mirrorfleet.slots.outgoing import Outgoing, Pipe
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

LATE_S: Final = 0.4
"""An answer that takes longer is looked into; most take milliseconds."""
TICK_S: Final = 0.1
BETWEEN_S: Final = 0.15
"""Between the two looks that must find a partition standing still."""
AGAIN_S: Final = 1.0
"""Between two looks into late answers of one slot: a thin line is late all the time."""
ASK_S: Final = 1.0
METADATA_S: Final = 5.0
"""Between two looks at who is in sync, for a slot: where all are, a late answer is no news."""

_log = logger(__name__)


async def watch(runner: SlotRunner, sender: Sender) -> None:
    """Close the connection that waits for a partition that stands still; until cancelled."""
    asked_at = -inf
    while True:
        await asyncio.sleep(TICK_S)
        can_go_on = runner.formats.quarantine is not None
        for pipe in sender.pipes.late(LATE_S) if can_go_on else ():
            if not any(runner.targets.is_short(*item.at) for item in pipe.waiting):
                now = runner.clock.monotonic()
                if now - asked_at > METADATA_S:
                    asked_at = now
                    runner.targets.ask()
                continue
            still = await _standing_still(runner, sender, pipe)
            if still and still <= await runner.wedges.sick_of(still):
                names = ", ".join(sorted(map(str, still)))
                _log.warning("%s not replicated", names, extra=fields(slot=runner.number))
                runner.wedges.suspect(still)
                pipe.lane.close()  # the transaction is aborted
            else:
                await asyncio.sleep(AGAIN_S)


async def _standing_still(runner: SlotRunner, sender: Sender, pipe: Pipe) -> set[TopicPartition]:
    """Partitions of the request that waits whose batch is appended and not replicated, twice."""
    items = pipe.waiting
    try:
        found = await _behind(runner, sender, items)
        if not found:
            return set()
        await asyncio.sleep(BETWEEN_S)
        again = await _behind(runner, sender, items) if pipe.waiting is items else {}
    except MirrorfleetError as error:
        text = fields(slot=runner.number, error=str(error))
        _log.info("a late answer cannot be looked into", extra=text)
        return set()
    still = {at for at, offset in found.items() if again.get(at) == offset}
    # All of several at once: replication is slow, and an abort would only repeat what was sent.
    return still if len(still) == 1 or len(still) * 2 <= len(items) else set()


async def _behind(
    runner: SlotRunner, sender: Sender, items: Sequence[Outgoing]
) -> dict[TopicPartition, int]:
    """High watermarks of partitions that have appended what was sent and not replicated it."""
    asked = [item.at for item in items if item.partition is not None]
    target = runner.target
    producers = await describe_producers(target, asked, deadline_s=ASK_S)
    listed = await list_offsets(
        target,
        dict.fromkeys(asked, LATEST),
        isolation=Isolation.READ_UNCOMMITTED,
        deadline_s=ASK_S,
    )
    found = {}
    for item in items:
        end = _end_of(runner, sender, item, producers.get(item.at, []))
        high = _offset(listed.get(item.at))
        if end is not None and high is not None and high < end:
            found[item.at] = high
    return found


def _end_of(
    runner: SlotRunner,
    sender: Sender,
    item: Outgoing,
    producers: list[ActiveProducer] | BrokerError,
) -> int | None:
    """Where our batch ends in the leader's log at the least; None when it is not appended."""
    touch = None if item.partition is None else runner.slot.open.get(item.partition)
    if isinstance(producers, BrokerError) or touch is None:
        return None
    acknowledged = 0 if touch.acked_to is None else touch.next_target
    last = next_sequence(item.sequence, item.batch.count - 1)
    for each in producers:
        start = each.transaction_start
        if each.producer == sender.producer and each.last_sequence == last and start is not None:
            return max(start, acknowledged) + item.batch.count
    return None


def _offset(answer: ListedOffset | BrokerError | None) -> int | None:
    return None if answer is None or isinstance(answer, BrokerError) else answer.offset
