"""What a slot's owner left open ends as its transaction did, before operators write there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.errors import ConnectionLostError
from mirrorfleet.core.ids import (
    ClusterAlias,
    FleetName,
    Link,
    PartitionIdentity,
    ProducerIdentity,
    SlotNumber,
    TopicPartition,
)
from mirrorfleet.core.names import transactional_id
from mirrorfleet.kafka import fenced_writer, left_open
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping import fencing
from mirrorfleet.operating import positions
from mirrorfleet.records.positions import Fence, Lifted, Position
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime.clock import SystemClock
from tests.contract.kafka.forgetful import DESCRIBE_PRODUCERS, ForgetfulBroker, Known
from tests.fakes import broker as fake
from tests.fakes.broker import Asked
from tests.unit.copying.making import entry
from tests.unit.operating.making import at_80

WEST, EAST, SLOT = FleetName("west"), ClusterAlias("east"), SlotNumber(3)
POSITIONS = TopicPartition(control_topic(WEST, ControlKind.POSITIONS), SLOT)
SEGMENTS = TopicPartition(control_topic(WEST, ControlKind.SEGMENTS), SLOT)
MAIN = transactional_id(WEST, EAST, SLOT)
STOP = Fence(who="me", reason="a drill", time_ms=0)
OWNER = ProducerIdentity(500, 6)
"""As the coordinator has it: its last transaction had the epoch before."""
WRITTEN = [f"record {POSITIONS}", f"commit {POSITIONS}"]


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ForgetfulBroker]:
    async def slots(*_: object) -> tuple[SlotNumber, ...]:
        return (SLOT,)

    monkeypatch.setattr(fencing, "slots_of_link", slots)
    async with ForgetfulBroker(POSITIONS, SEGMENTS) as made:
        yield made


def opened(broker: ForgetfulBroker, *down: str) -> Cluster:
    bootstrap = (*down, broker.bootstrap)
    settings = ClusterSettings(
        alias=ClusterAlias("west"), bootstrap=bootstrap, request_timeout_s=1.0
    )
    return Cluster(settings)


async def marked(broker: ForgetfulBroker, mark: Fence | Lifted, *down: str) -> str:
    async with opened(broker, *down) as target:
        found = await fencing.mark(target, WEST, Link(EAST, ClusterAlias("west")), mark, 1)
    return found[SLOT]


@pytest.mark.parametrize("mark", [STOP, Lifted()], ids=["fence", "lift"])
@pytest.mark.parametrize("at", [POSITIONS, SEGMENTS], ids=["positions", "segments"])
@pytest.mark.parametrize(
    ("state", "epoch", "end"),
    [
        ("CompleteAbort", 5, "abort"),
        ("CompleteCommit", 5, "commit"),
        ("CompleteCommit", 6, "abort"),
    ],
)
async def test_what_an_owner_left_open_ends_as_its_transaction_did_before_a_record_of_ours(
    broker: ForgetfulBroker,
    mark: Fence | Lifted,
    at: TopicPartition,
    state: str,
    epoch: int,
    end: str,
) -> None:
    broker.ids[MAIN] = Known(OWNER, state)
    broker.leave_open(at, OWNER._replace(epoch=epoch))

    assert await marked(broker, mark) == ""

    spare = WRITTEN if mark is STOP else []
    assert broker.seen_ends == [*spare, f"{end} {at}", *WRITTEN, *spare]
    assert broker.open == {}


async def test_an_import_settles_the_slot_before_it_looks_at_it_and_writes(
    broker: ForgetfulBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_by_look: list[list[str]] = []

    async def committed(*_: object) -> dict[PartitionIdentity, Position]:
        seen_by_look.append([*broker.seen_ends])
        return {}

    async def behind(_: object) -> list[str]:
        return []

    monkeypatch.setattr(positions, "_committed", committed)
    monkeypatch.setattr(positions, "unfit", lambda *_, **__: [])
    broker.ids[MAIN] = Known(OWNER, "CompleteAbort")
    broker.leave_open(SEGMENTS, OWNER._replace(epoch=5))
    partition = replace(entry(0), slot=SLOT)
    async with opened(broker) as target:
        copies = SimpleNamespace(target=target, view=None, go_on_behind=behind)
        some = [at_80(0)]
        await positions._write(
            cast("positions._Behind", copies), WEST, partition, some, SystemClock()
        )

    assert seen_by_look == [[f"abort {SEGMENTS}"]]
    assert broker.seen_ends == [f"abort {SEGMENTS}", *WRITTEN]


async def test_a_marker_that_is_forgotten_while_the_owner_is_fenced_is_written(
    broker: ForgetfulBroker,
) -> None:
    broker.ids[MAIN] = Known(OWNER, "Ongoing", {POSITIONS, SEGMENTS})
    broker.leave_open(POSITIONS, OWNER)
    broker.leave_open(SEGMENTS, OWNER)
    broker.forgets = {POSITIONS}

    assert await marked(broker, Lifted()) == ""

    assert broker.seen_ends == [f"abort {SEGMENTS}", f"abort {POSITIONS}", *WRITTEN]


async def test_how_the_owners_transaction_ended_is_known_after_a_look_that_failed(
    broker: ForgetfulBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own InitProducerId has changed what the coordinator tells."""
    monkeypatch.setattr(left_open, "_ASK_S", 0.2)
    broker.ids[MAIN] = Known(OWNER, "CompleteCommit")
    broker.leave_open(SEGMENTS, OWNER._replace(epoch=5))

    def take_and_lose_the_leader(asked: Asked) -> object:
        broker.then(DESCRIBE_PRODUCERS, *[fake.hang_up] * 3)
        return broker._init(asked)

    broker.then(fake.INIT_PRODUCER_ID, take_and_lose_the_leader)
    assert await marked(broker, Lifted()) == ""
    assert len(broker.asked(fake.INIT_PRODUCER_ID)) == 2
    assert broker.seen_ends == [f"commit {SEGMENTS}", *WRITTEN]


async def test_our_own_record_whose_abort_was_forgotten_is_aborted_before_the_next(
    broker: ForgetfulBroker,
) -> None:
    def append_and_hang_up(asked: Asked) -> object:
        broker._produce(asked)
        broker.forgets = {POSITIONS}
        return fake.HangUp()

    broker.then(fake.PRODUCE, append_and_hang_up)
    assert await marked(broker, Lifted()) == ""
    assert broker.seen_ends == [f"record {POSITIONS}", f"abort {POSITIONS}", *WRITTEN]


@pytest.mark.parametrize("mark", [STOP, Lifted()], ids=["fence", "lift"])
async def test_while_a_leader_does_not_tell_the_id_is_not_taken_and_it_is_said_what_to_do(
    broker: ForgetfulBroker, mark: Fence | Lifted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fenced_writer, "BY_ORDER_S", 0.5)
    broker.ids[MAIN] = Known(OWNER, "CompleteAbort")
    broker.leaderless = {SEGMENTS}

    told = await marked(broker, mark)

    assert f"{POSITIONS}, {SEGMENTS} cannot be known" in told
    assert "is not taken, and nothing is written" in told
    assert "Run it again once the brokers that lead" in told
    assert (broker.seen_ends, broker.asked(fake.INIT_PRODUCER_ID)) == ([], [])


async def test_a_slot_is_fenced_though_a_broker_of_the_cluster_is_reached_by_nobody(
    broker: ForgetfulBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fenced_writer, "BY_ORDER_S", 2.0)
    broker.brokers = {**broker.brokers, 9: ("127.0.0.1", 1)}
    async with opened(broker) as target:
        with pytest.raises(ConnectionLostError):  # who is to work with it for long wants all
            await target.transaction_version()

    assert await marked(broker, STOP) == ""
    assert broker.seen_ends == WRITTEN * 3


async def test_where_nothing_was_left_open_a_slot_is_fenced_though_other_brokers_are_down(
    broker: ForgetfulBroker,
) -> None:
    assert await marked(broker, STOP, "127.0.0.1:1") == ""
    assert broker.seen_ends == WRITTEN * 3
