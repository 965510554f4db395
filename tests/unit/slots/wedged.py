"""A slot whose coordinator is asked again and again what is pending."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.schedule import Setbacks
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import FleetName, ProducerIdentity, SlotNumber, TopicPartition
from mirrorfleet.core.names import spare_id
from mirrorfleet.kafka import left_open
from mirrorfleet.kafka.inspection import ActiveProducer, TransactionDescription
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.offsets.ahead import Compared
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.formats import LEVELS
from mirrorfleet.slots import endings, in_sync, quarantine
from mirrorfleet.slots.quarantine import Wedges
from tests.unit.copying.making import LINK, entry, slot
from tests.unit.slots.stubs import NoSpare

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from mirrorfleet.core.ids import PartitionIdentity, TargetOffset
    from mirrorfleet.records.positions import Entry
    from mirrorfleet.slots.runner import SlotRunner

MAIN, SPARE = "mirrorfleet.west.east.3", spare_id(FleetName("west"), LINK.source, SlotNumber(3))
SICK, WELL = TopicPartition("east.orders", 0), TopicPartition("east.orders", 1)
CONTROL = TopicPartition("__mirrorfleet.west.positions", 3)
PRODUCER = ProducerIdentity(7, 1)
LEAST = "min.insync.replicas"
Look = tuple[str, tuple[TopicPartition, ...]] | Exception


class World:
    """A slot whose coordinator is asked again and again what is pending."""

    commits = 0
    takes_time = False
    """Whether others have a turn during a look."""
    leader = 1
    in_sync: tuple[int, ...] = (1, 2)
    least: int | BrokerError = 3
    replicas = 3

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks: list[Look] = []
        self.ids: list[str] = []
        self.ended: list[str] = []
        self.coordinators: list[dict[str, int] | None] = []
        """Who was believed to be the coordinator, with each look."""
        self.asked = 0
        self.renewals: list[float] = []
        """When metadata of the copies was asked for."""
        self.now = 100.0
        self.log: list[Entry] = []
        """What stands in the slot's positions before our own record."""
        self.closed, self.is_member = False, True
        self.short: dict[TopicPartition, int] = {}
        """Partitions that lack replicas in sync, and how many are."""
        self.well: frozenset[TopicPartition] = frozenset()
        """Partitions that have all replicas in sync, whatever the others have."""
        self.open_at: frozenset[TopicPartition] | Exception = frozenset()
        """Where leaders have something open of the main id."""
        self.map = OffsetIndex()
        self.compared = Compared(set(), {})
        """What the stored map says of the positions of `asked_of`."""
        self.asked_of: set[PartitionIdentity] = set()
        self.runner = self._runner()
        self.wedges = self.runner.wedges = Wedges(cast("SlotRunner", self.runner))
        self.wedges.is_owner = True
        monkeypatch.setattr(left_open, "describe_transactions", self._describe)
        monkeypatch.setattr(in_sync, "describe_configs", self._configs)
        monkeypatch.setattr(endings, "ask_control", self._ask_control)
        monkeypatch.setattr(endings, "transactions_of", lambda runner, name: self.used(name))
        monkeypatch.setattr(quarantine, "AGAIN_S", 0.0)

    def _runner(self) -> SimpleNamespace:
        made = slot(entry(0), entry(1))
        return SimpleNamespace(
            number=3,
            fleet=FleetName("west"),
            link=LINK,
            target=SimpleNamespace(metadata=self.metadata),
            sources=SimpleNamespace(topic_id=lambda topic: None),
            targets=SimpleNamespace(
                topic_id=lambda topic: None,
                in_sync=self._in_sync,
                of=lambda *at: None,
                go_on_asking=lambda: self.renewals.append(self.now),
            ),
            mender=SimpleNamespace(
                compared_with=self._compare, maps_of=self._maps, tell=lambda *_: None
            ),
            owner="me",
            slot=made,
            entries={one.entry.identity: one.entry for one in made.partitions.values()},
            unstarted={},
            formats=LEVELS[2],
            clock=SimpleNamespace(monotonic=lambda: self.now, now_ms=lambda: 5),
            wake=lambda: None,
            move=lambda state: None,
            report_fault=lambda partition: None,
            control_partition=lambda kind: CONTROL,
            setbacks=Setbacks(),
            spare=NoSpare(),
            transaction_version=TransactionVersion.V2,
            confirm=self._confirm,
        )

    async def _confirm(self) -> bool:
        return self.is_member

    async def _compare(self, copied: Mapping[PartitionIdentity, TargetOffset]) -> Compared:
        self.asked_of = set(copied)
        return self.compared

    async def _maps(self, _: object) -> OffsetIndex:
        return self.map

    def _in_sync(self, *at: str | int) -> int | None:
        topic, number = at
        return self.short.get(TopicPartition(str(topic), int(number)))

    async def _ask_control(
        self, _: object, others: frozenset[TopicPartition], deadline_s: float
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        assert deadline_s == in_sync.ASK_S
        if isinstance(self.open_at, Exception):
            raise self.open_at
        here = ActiveProducer(PRODUCER, 0, 0, 100)
        return {at: [here] if at in self.open_at else [] for at in (CONTROL, *others)}

    async def _configs(self, _: object, topics: list[str], **__: object) -> dict[str, object]:
        value = SimpleNamespace(value=str(self.least))
        answer = self.least if isinstance(self.least, BrokerError) else {LEAST: value}
        return dict.fromkeys(topics, answer)

    async def metadata(self, topics: list[str], *, deadline_s: float) -> SimpleNamespace:
        assert deadline_s == in_sync.ASK_S
        return SimpleNamespace(topics={topic: self._topic(topic) for topic in topics})

    def _topic(self, name: str) -> SimpleNamespace:
        replicas = range(self.replicas)
        found = {
            number: SimpleNamespace(
                leader=self.leader,
                isr=replicas if TopicPartition(name, number) in self.well else self.in_sync,
                replicas=replicas,
            )
            for number in range(4)
        }
        return SimpleNamespace(partitions=found)

    def used(self, name: str) -> SimpleNamespace:
        self.ids.append(name)
        return SimpleNamespace(close=lambda: self.ended.append(name))

    async def _describe(
        self, _: object, names: list[str], *, coordinators: dict[str, int] | None, **__: object
    ) -> dict[str, object]:
        if self.takes_time:
            await asyncio.sleep(0)
        self.coordinators.append(None if coordinators is None else dict(coordinators))
        if coordinators is not None:
            coordinators[MAIN] = 1
        self.asked += 1
        self.now += 1.0
        (name,) = names
        assert name == MAIN
        look = self.looks.pop(0)
        if isinstance(look, BrokerError):
            return {name: look}
        if isinstance(look, Exception):
            raise look
        return {name: TransactionDescription(name, look[0], PRODUCER, 15_000, look[1])}
