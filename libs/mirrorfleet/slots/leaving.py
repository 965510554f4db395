"""Partitions that the catalog does not have any more: what the ledger is told of how they ended.

They are left at once. What their topic had behind them is told when the ledger and the source are
there, by metadata that is younger than their end; nobody waits for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.faults import FaultReason
from mirrorfleet.slots import ledger, succession
from mirrorfleet.slots.ledger import LedgerEntry

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ids import PartitionIdentity
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

_ENDED: Final = "ended"


async def tell_of_ended(runner: SlotRunner, sender: Sender) -> None:
    """Tell of partitions that another incarnation will not follow: their topic has fewer now.

    One that we left is looked at, too, until the ledger has been told of it; others do not wait
    for a ledger or a source that is away.
    """
    slot, entries = runner.slot, runner.entries
    left = _not_followed_now(runner)
    if not await _can_be_told(runner, left):
        slot.left |= left
        return
    events = []
    for identity, partition in left.items():
        entry = partition.entry
        now = runner.sources.topic_id(entry.source_topic)
        if now is None or now == identity.source_topic_id:
            continue
        if partition.source.high_watermark >= 0:
            slot.ends[identity] = partition.source.high_watermark
        known = slot.known.get(identity, partition.committed)  # as it was read again, perhaps
        first = max(slot.settled(partition), known.next_source)
        span = await succession.unread(runner, identity, first)
        text = f"{entry.source_topic} was deleted and created again with fewer partitions"
        request = runner.mender.open_request(identity)
        runner.mender.answered(request)
        told_of = LedgerEntry(span, FaultReason.SOURCE_RECREATED, text, request)
        events.append(ledger.gap(runner, entry, told_of))
    if events:
        await sender.commit_control([ledger.event_entry(runner, events)])
    slot.left = {identity: one for identity, one in slot.left.items() if identity in entries}


def is_untold(runner: SlotRunner) -> bool:
    """Whether the ledger may be told now of a partition that was left."""
    left = runner.slot.left.keys() - runner.entries.keys()
    is_open = bool(left) and ledger.is_open(runner)
    return is_open and runner.freshness.may_be(runner.sources, _ENDED, left)


def _not_followed_now(runner: SlotRunner) -> dict[PartitionIdentity, CopyPartition]:
    """What is left, and no other incarnation has its place in the catalog."""
    slot, entries = runner.slot, runner.entries
    followed = {(*_names(entry), identity.partition) for identity, entry in entries.items()}
    return {
        identity: partition
        for identity, partition in (slot.left | slot.partitions).items()
        if identity not in entries
        and (*_names(partition.entry), identity.partition) not in followed
    }


async def _can_be_told(runner: SlotRunner, left: dict[PartitionIdentity, CopyPartition]) -> bool:
    """Whether the ledger is open, and the source has told what it has since these were left."""
    # nobody else needs these: they would be forgotten while the ledger or the source is away
    runner.sources.need(one.entry.source_topic for one in left.values())
    is_open = not left or ledger.is_open(runner)
    about = left if is_open else {}
    is_known = await runner.freshness.is_younger(runner.sources, _ENDED, about)
    return is_open and is_known


def _names(entry: CatalogPartition) -> tuple[str, str]:
    return entry.source_topic, entry.target_topic
