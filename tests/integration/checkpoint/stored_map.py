"""Control topics of a fleet without services, and somebody who writes segments into them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final

from mirrorfleet.core.ids import FleetName, SlotNumber, TopicPartition
from mirrorfleet.kafka.admin import NewTopic, create_topics
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.kafka.control_writer import Entry
from mirrorfleet.mapping.following import MapFollower
from mirrorfleet.mapping.packing import Packer
from mirrorfleet.mapping.store import KafkaMapStore
from mirrorfleet.records.segments import Segment, encode_segment
from mirrorfleet.records.topics import ControlKind, control_topic, control_topics
from mirrorfleet.runtime.clock import SystemClock

OTHER: Final = SlotNumber(0)
SLOT: Final = SlotNumber(1)
NUMBERS: Final = count(1)


class StoredMap:
    """Control topics of two slots, and somebody who writes segments into one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.name = FleetName(f"map{next(NUMBERS)}")
        self.store = KafkaMapStore(cluster, self.name, SystemClock())
        self._writer = ControlWriter(cluster)

    async def make(self) -> None:
        specs = control_topics(self.name, slots=2, replication_factor=1)
        topics = [
            NewTopic(name=s.name, partitions=s.partitions, replication_factor=1, configs=s.configs)
            for s in specs
        ]
        assert set((await create_topics(self.cluster, topics)).values()) == {None}

    async def write(self, segments: Iterable[Segment]) -> None:
        await self.put(ControlKind.SEGMENTS, SLOT, *((None, encode_segment(s)) for s in segments))

    async def put(self, kind: ControlKind, slot: SlotNumber, *entries: Entry) -> None:
        at = TopicPartition(control_topic(self.name, kind), slot)
        await self._writer.write(at, entries, 1_700_000_000_000)

    async def follower(self) -> MapFollower:
        made = MapFollower(self.cluster, self.name, self.store)
        made.want([SLOT, OTHER])
        await made.catch_up()
        return made

    async def pack(self) -> None:
        packer = Packer(self.store, SLOT)
        while (await packer.pack(most_offsets=300)).left:
            pass

    def close(self) -> None:
        self.store.close()
        self._writer.close()
