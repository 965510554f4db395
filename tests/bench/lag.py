"""CPU of `lag` with 10,000 partitions: `python -m tests.bench.lag [PARTITIONS]`.

Everything that the service does for them in a second, except the sockets: snapshots decoded and
fed, the source's ends asked for (requests encoded, answers decoded) and fed, every partition
judged, samples encoded into batches, once a scrape in fifteen seconds.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.list_offsets.v7.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import i32, i64

from mirrorfleet.core.ids import (
    ClusterAlias,
    ClusterId,
    Link,
    PartitionIdentity,
    SlotNumber,
    SourceOffset,
    TargetOffset,
    TopicPartition,
)
from mirrorfleet.kafka.cluster import Cluster, PartitionLeader
from mirrorfleet.kafka.codec import decode, encode, milliseconds
from mirrorfleet.lagging.board import Board
from mirrorfleet.lagging.verdict import Limits
from mirrorfleet.records import progress, samples
from mirrorfleet.records.catalog import CatalogPartition
from mirrorfleet.records.packing import Skipped
from mirrorfleet.records.progress import PartitionProgress, Progress
from mirrorfleet.runtime.metrics import Exposition, Metrics
from mirrorfleet.watching.ends import EndsWatch
from mirrorfleet.wire.records import control_batch
from services.lag.report import Gauges, LinkView

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock

LINK = Link(ClusterAlias("east"), ClusterAlias("west"))
SLOTS, IN_TOPIC, RATE = 16, 100, 50
SECONDS = 30
SCRAPE_S = 15


@dataclass
class World:
    """What time it is, and where source and mirror are: every partition moves all the time."""

    second: int = 0

    def now_ms(self) -> int:
        return 1_790_000_000_000 + self.second * 1_000

    def monotonic(self) -> float:
        return float(self.second)

    @property
    def end(self) -> int:
        return 1_000 + self.second * RATE


class Broker:
    """A cluster of one broker that answers ListOffsets, with both sides' coding."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.settings = SimpleNamespace(request_timeout_s=30.0)
        self.dice, self.name = SimpleNamespace(uniform=lambda low, high: low), "east"
        self.other_s = 0.0

    async def leader(self, tp: TopicPartition) -> PartitionLeader:
        return PartitionLeader(1, 0)

    async def ask(
        self, request: ListOffsetsRequest, *_: object, **__: object
    ) -> ListOffsetsResponse:
        encode(request)
        begun = time.process_time()
        answer = ListOffsetsResponse(
            throttle_time=milliseconds(0),
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=p.partition_index,
                            error_code=ErrorCode.none,
                            timestamp=i64(-1),
                            offset=i64(self.world.end),
                            leader_epoch=i32(0),
                        )
                        for p in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )
        raw = encode(answer)
        self.other_s += time.process_time() - begun  # the broker's work, not ours
        return decode(ListOffsetsResponse, raw, 0)


def entries(count: int) -> list[CatalogPartition]:
    def identity(number: int) -> PartitionIdentity:
        topic = number // IN_TOPIC
        return PartitionIdentity(
            ClusterId("AAECAwQFBgcICQoLDA0ODw"),
            UUID(int=topic + 1),
            number % IN_TOPIC,
            UUID(int=topic + 1_000_001),
        )

    return [
        CatalogPartition(
            identity=identity(number),
            link=LINK,
            source_topic=f"topic-{number // IN_TOPIC}",
            target_topic=f"east.topic-{number // IN_TOPIC}",
            slot=SlotNumber(number % SLOTS),
            source_retention_ms=604_800_000,
        )
        for number in range(count)
    ]


def snapshots(catalog: list[CatalogPartition], world: World) -> list[tuple[bytes, bytes]]:
    """What the workers write in this second."""
    by_slot: dict[SlotNumber, list[PartitionProgress]] = {}
    at = world.end - RATE // 2
    for entry in catalog:
        said = PartitionProgress(
            identity=entry.identity,
            source_topic=entry.source_topic,
            target_topic=entry.target_topic,
            next_source=SourceOffset(at),
            next_target=TargetOffset(at),
            high_watermark=SourceOffset(at),
            last_stable=SourceOffset(at),
            log_start=SourceOffset(0),
            records=at,
            bytes=at * 100,
            last_progress_ms=world.now_ms(),
            oldest_uncopied_ms=world.now_ms() - 20,
            state="live",
        )
        by_slot.setdefault(entry.slot, []).append(said)
    head = Progress(
        slot=SlotNumber(0), time_ms=world.now_ms(), owner="mirror:1", state="copying", partitions=()
    )
    return [
        progress.encode(replace(head, slot=slot, partitions=tuple(said)))
        for slot, said in by_slot.items()
    ]


async def measure(count: int) -> dict[str, float]:
    """CPU seconds by part, for `SECONDS` seconds of the service."""
    world, catalog = World(), entries(count)
    board = Board(Limits(), sample_ms=5_000)
    board.want(catalog, world.now_ms())
    for number in range(SLOTS):
        board.hold(SlotNumber(number), (), world.now_ms())
    broker = Broker(world)
    known = board.by_source(LINK)
    ends = EndsWatch(
        cast("Cluster", broker),
        cast("Clock", world),
        lambda tp, end, at: known[tp].end_seen(end, at),
    )
    metrics = Metrics()
    Gauges(board, [LinkView(LINK)], cast("Clock", world)).register(metrics)
    exposition = Exposition(metrics)
    spent: dict[str, float] = {}

    def lap(name: str, since: float) -> float:
        now = time.process_time()
        spent[name] = spent.get(name, 0.0) + now - since - broker.other_s
        broker.other_s = 0.0
        return now

    written = size = 0
    for world.second in range(1, SECONDS + 1):
        words = snapshots(catalog, world)
        at = time.process_time()
        for key, value in words:
            snapshot = progress.decode(key, value)
            assert not isinstance(snapshot, Skipped)
            board.heard(snapshot)
        at = lap("snapshots", at)
        known = board.by_source(LINK)
        await ends.look(known)
        at = lap("source ends", at)
        if world.second % 2 == 0:
            board.want(catalog, world.now_ms())
        told = [(slot, board.look(slot, world.now_ms())) for slot in board.slots]
        at = lap("judging", at)
        for _, each in told:
            encoded = [samples.encode(sample) for sample in each.samples]
            written += len(encoded)
            size += sum(len(value) for _, value in encoded)
            if encoded:
                control_batch(encoded, world.now_ms())
        at = lap("samples", at)
        if world.second % SCRAPE_S == 0:
            exposition.text()
            lap("scrapes", at)
    spent["samples a second"], spent["sample bytes a second"] = written / SECONDS, size / SECONDS
    return spent


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    found = asyncio.run(measure(count))
    sizes = {name: found.pop(name) for name in list(found) if name.endswith("a second")}
    for name, cpu_s in found.items():
        print(f"{name:12} {cpu_s / SECONDS:6.3f} core")
    print(f"{count} partitions, all of them moving: {sum(found.values()) / SECONDS:.2f} core")
    print(", ".join(f"{value:,.0f} {name}" for name, value in sizes.items()))


if __name__ == "__main__":
    main()
