"""Where new partitions begin on the source, as the catalog says and the source has it."""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError
from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.offsets import EARLIEST, LATEST, ListedOffset, OffsetSpec, list_offsets
from mirrorfleet.records import incarnations
from mirrorfleet.records.incarnations import LossCause
from mirrorfleet.wire.k01_fetch import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.slots.runner import SlotRunner

START_DEADLINE_S: Final = 10.0
"""All that is new in a slot waits for those of it that nobody tells."""
TARGET_ENDS_S: Final = 2.0
LARGEST_START: Final = 2**63 - 1
"""An older build let greater numbers into the catalog, which no request can hold."""


class Starts(NamedTuple):
    """Where new partitions begin, and what the source says of those that it does not tell."""

    found: dict[PartitionIdentity, SourceOffset]
    refused: dict[PartitionIdentity, BrokerError]
    target_ends: Mapping[PartitionIdentity, TargetOffset] = MappingProxyType({})
    """Where the target ends that is known to have been cut: what was copied before ended higher."""


NOTHING_NEW: Final = Starts({}, {})
"""All have positions."""


async def resolve_starts(runner: SlotRunner, entries: list[CatalogPartition]) -> Starts:
    """Where each new partition begins on the source."""
    found: dict[PartitionIdentity, SourceOffset] = {}
    refused: dict[PartitionIdentity, BrokerError] = {}
    asked: dict[TopicPartition, OffsetSpec] = {}
    for entry in entries:
        spec = _spec(entry.start)
        if spec is None:
            where = f"its start in the catalog, {entry.start!r}, is not known to this build"
            refused[entry.identity] = BrokerError(ErrorCode.INVALID_REQUEST, where)
        elif isinstance(spec, OffsetSpec):
            asked[entry.source] = spec
        else:
            found[entry.identity] = spec
    listed = await _listed(runner, asked)
    # Where no record is as young as the timestamp, begin at the end.
    late = {
        at: LATEST
        for at, answer in listed.items()
        if not isinstance(answer, BrokerError) and answer.offset < 0
    }
    listed.update(await _listed(runner, late))
    for entry in entries:
        answer = listed.get(entry.source)
        if isinstance(answer, BrokerError):
            refused[entry.identity] = answer
        elif answer is not None and answer.offset >= 0:
            found[entry.identity] = SourceOffset(answer.offset)
    return Starts(found, refused, await _target_ends(runner, entries))


async def _target_ends(
    runner: SlotRunner, entries: Iterable[CatalogPartition]
) -> dict[PartitionIdentity, TargetOffset]:
    """Of the partitions that begin anew because the target was cut; 0 where it does not tell now:
    that keeps nobody waiting.
    """
    cut = [e for e in entries if e.loss is not None and e.loss.cause == LossCause.TARGET_TRUNCATED]
    if not cut:
        return {}
    ends: dict[TopicPartition, ListedOffset | BrokerError] = {}
    with suppress(DeadlineError):
        ends = await list_offsets(
            runner.target,
            {entry.target: LATEST for entry in cut},
            isolation=Isolation.READ_UNCOMMITTED,
            deadline_s=TARGET_ENDS_S,
        )
    told = {at: end.offset for at, end in ends.items() if not isinstance(end, BrokerError)}
    return {entry.identity: TargetOffset(told.get(entry.target, 0)) for entry in cut}


async def _listed(
    runner: SlotRunner, asked: dict[TopicPartition, OffsetSpec]
) -> dict[TopicPartition, ListedOffset | BrokerError]:
    if not asked:
        return {}
    return await list_offsets(runner.source, asked, deadline_s=START_DEADLINE_S)


def _spec(start: str) -> OffsetSpec | SourceOffset | None:
    """None: this build cannot read it, which must stop nothing but this partition."""
    word, _, value = start.partition(":")
    number = min(int(value), LARGEST_START) if value.isascii() and value.isdigit() else None
    match word, number:
        case incarnations.FROM_THE_START, None:
            return EARLIEST
        case incarnations.AT_THE_END, None:
            return LATEST
        case incarnations.AT_TIMESTAMP, int(timestamp):
            return OffsetSpec(timestamp)
        case incarnations.AT_OFFSET, int(offset):
            return SourceOffset(offset)
        case _:
            return None
