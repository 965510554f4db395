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
from mirrorfleet.lagging.board import Board, Place
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
    from collections.abc import Collection

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

    def forget_leaders(self, topic: str) -> None:
        """Memory is all that there is."""

    async def leaders(
        self, partitions: Collection[TopicPartition], *, deadline_s: float
    ) -> dict[TopicPartition, PartitionLeader]:
        del deadline_s
        return dict.fromkeys(partitions, PartitionLeader(1, 0))

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


class Bench:
    """The service's parts without its sockets; `spent` has CPU seconds by part."""

    def __init__(self, count: int) -> None:
        self.world, self.catalog = World(), entries(count)
        self.board = Board(Limits(), sample_ms=5_000)
        self.board.want(self.catalog, self.world.now_ms())
        for number in range(SLOTS):
            self.board.hold(SlotNumber(number), (), self.world.now_ms())
        clock = cast("Clock", self.world)
        self.broker = Broker(self.world)
        self.known = self.board.by_source(LINK)
        self.ends = EndsWatch(cast("Cluster", self.broker), clock, self._end_seen)
        metrics = Metrics()
        Gauges(self.board, [LinkView(LINK)], clock).register(metrics)
        self.exposition = Exposition(metrics)
        self.spent: dict[str, float] = {}
        self.written = self.size = 0

    def _end_seen(self, tp: TopicPartition, end: int, at_ms: int) -> None:
        self.known[tp].end_seen(end, at_ms)

    def lap(self, name: str, since: float) -> float:
        now = time.process_time()
        self.spent[name] = self.spent.get(name, 0.0) + now - since - self.broker.other_s
        self.broker.other_s = 0.0
        return now

    async def second(self) -> None:
        """One second of the service."""
        words, board, now_ms = snapshots(self.catalog, self.world), self.board, self.world.now_ms()
        at = time.process_time()
        for key, value in words:
            snapshot = progress.decode(key, value, heard_ms=now_ms)
            assert not isinstance(snapshot, Skipped)
            board.heard(snapshot, now_ms, Place(now_ms, now_ms))
        at = self.lap("snapshots", at)
        self.known = board.by_source(LINK)
        await self.ends.look(self.known)
        at = self.lap("source ends", at)
        if self.world.second % 2 == 0:
            board.want(self.catalog, now_ms)
        board.ease()
        told = [board.look(slot, now_ms) for slot in board.slots]
        at = self.lap("judging", at)
        for each in told:
            encoded = [samples.encode(sample) for sample in each.samples]
            self.written += len(encoded)
            self.size += sum(len(value) for _, value in encoded)
            if encoded:
                control_batch(encoded, now_ms)
        at = self.lap("samples", at)
        if self.world.second % SCRAPE_S == 0:
            self.exposition.text()
            self.lap("scrapes", at)


async def measure(count: int) -> Bench:
    """`SECONDS` seconds of the service."""
    bench = Bench(count)
    for bench.world.second in range(1, SECONDS + 1):
        await bench.second()
    return bench


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    bench = asyncio.run(measure(count))
    for name, cpu_s in bench.spent.items():
        print(f"{name:12} {cpu_s / SECONDS:6.3f} core")
    total = sum(bench.spent.values()) / SECONDS
    print(f"{count} partitions, all of them moving: {total:.2f} core")
    written, size = bench.written / SECONDS, bench.size / SECONDS
    print(f"{written:,.0f} samples a second, {size / 1000:,.0f} kB a second")


if __name__ == "__main__":
    main()
