"""Which topics of a link are counted: those that are copied, however many there were before."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.copying.transaction import Touch, Transaction
from mirrorfleet.core.errors import FencedError
from mirrorfleet.core.ids import FleetName, SlotNumber
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.lifecycle import Stop
from mirrorfleet.runtime.metrics import MAX_SERIES, OTHER, Exposition, Metrics
from mirrorfleet.slots.meters import LinkMeters
from mirrorfleet.slots.owning import Owning
from mirrorfleet.slots.worker import SourceSide
from tests.unit.copying.making import LINK, entry, partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.membership import Membership
    from mirrorfleet.slots.leaders import Leaders
    from mirrorfleet.slots.worker import Worker

SLOT = SlotNumber(3)


class World:
    """A worker that copies topics of one link, in one slot."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.kept: list[set[str]] = []
        needs = SimpleNamespace(
            need=lambda _: None, need_partitions=lambda _: None, keep_only=self.kept.append
        )
        worker = SimpleNamespace(fleet=FleetName("west"), clock=SystemClock(), targets=needs)
        self.meters = LinkMeters(self.metrics, LINK)
        self.side = SourceSide(
            LINK,
            cast("Cluster", None),
            cast("Leaders", needs),
            self.meters,
            "User:mirror",
            cast("asyncio.Task[None]", None),
        )
        self.owning = Owning(
            cast("Worker", worker),
            cast("Membership", None),
            tasks=asyncio.TaskGroup(),
            stop=Stop(SystemClock(), 1.0),
        )

    def catalog(self, *topics: str) -> None:
        entries = [entry(number, source_topic=topic) for number, topic in enumerate(topics)]
        if entries:
            self.owning.assign(SLOT, self.side, {each.identity: each for each in entries})
        self.owning.keep_only({SLOT} if entries else ())

    def commit(self, topic: str, records: int) -> None:
        partition = partition_of(slot(entry(source_topic=topic)))
        done = Transaction(0.0)
        done.touched[partition] = Touch(partition.committed.next_target, records=records)
        self.meters.committed(done, 0.1, 1_000)

    def counted(self, name: str = "records") -> list[str]:
        lines = Exposition(self.metrics).text().decode().splitlines()
        return [line for line in lines if line.startswith(f"mirrorfleet_{name}_total{{")]


def test_topics_that_are_gone_leave_room_for_new_ones_and_those_that_stay_count_on() -> None:
    world = World()
    for number in range(MAX_SERIES + 3):
        world.catalog("stays", f"t{number}")
        world.commit("stays", 1)
        world.commit(f"t{number}", 7)

    last = f"t{MAX_SERIES + 2}"
    assert world.counted() == [
        f'mirrorfleet_records_total{{link="east->west",topic="stays"}} {MAX_SERIES + 3}.0',
        f'mirrorfleet_records_total{{link="east->west",topic="{last}"}} 7.0',
    ]
    assert OTHER not in Exposition(world.metrics).text().decode()

    world.catalog()
    assert world.counted() == []


def test_a_topic_is_counted_as_long_as_one_of_its_partitions_is_copied() -> None:
    world = World()
    world.catalog("orders", "orders", "gone")
    world.commit("orders", 3)
    world.commit("gone", 3)

    world.catalog("orders")
    world.commit("orders", 4)
    of_source, of_target = world.kept[-2:]
    assert of_source == {"orders"}
    assert {name for name in of_target if not name.startswith("__mirrorfleet.")} == {"east.orders"}

    assert world.counted() == ['mirrorfleet_records_total{link="east->west",topic="orders"} 7.0']


def test_a_gap_is_counted_from_zero_on_and_what_is_copied_again_is_none() -> None:
    """An alert on growth would not see the first, if the series began with it."""
    world = World()
    before = world.counted("gaps")

    told = [EventKind.REWOUND, EventKind.GAP, EventKind.GAP]
    world.meters.told([Event(kind=kind, time_ms=1, writer="me", detail="") for kind in told])

    assert before == ['mirrorfleet_gaps_total{link="east->west"} 0.0']
    assert world.counted("gaps") == ['mirrorfleet_gaps_total{link="east->west"} 2.0']


def test_a_slot_that_another_owner_took_is_counted_from_zero_on() -> None:
    world = World()
    before = world.counted("slot_losses")

    world.meters.lost(FencedError("another owner has it"))

    assert before == ['mirrorfleet_slot_losses_total{cause="FencedError",link="east->west"} 0.0']
    assert world.counted("slot_losses") == [before[0].replace(" 0.0", " 1.0")]
