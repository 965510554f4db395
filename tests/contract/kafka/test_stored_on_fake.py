"""Reading a partition up to an end: what an answer without batches means, and what it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as Code

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import ClusterAlias, TopicPartition
from mirrorfleet.kafka import stored
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control_reading import ControlRecord, read_up_to
from mirrorfleet.kafka.stored import committed_records, first_committed
from mirrorfleet.wire.records import NewRecord, build_batch
from mirrorfleet.wire.rewrite import stamp
from tests.contract.kafka.making import NOBODY
from tests.fakes import broker as fake
from tests.fakes.broker import Asked, FakeBroker
from tests.unit.wire.batches import batch_of, marker, some

END = 3
THROTTLED = 20
"""Milliseconds."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is between two empty answers."""
    monkeypatch.setattr(stored, "_EMPTY_S", 0.0)


@pytest.fixture
async def cluster(broker: FakeBroker) -> AsyncIterator[Cluster]:
    settings = ClusterSettings(
        alias=ClusterAlias("fake"), bootstrap=(broker.bootstrap,), request_timeout_s=1.0
    )
    async with Cluster(settings) as opened:
        yield opened


def record(offset: int) -> bytes:
    """A batch of one record, as it is stored."""
    batch = build_batch([NewRecord(0, None, b"%d" % offset)])
    header = stamp(batch, NOBODY, -1, transactional=False)
    return offset.to_bytes(8, "big") + header[8:] + bytes(batch.payload)


def answer(
    *offsets: int,
    stable: int = END,
    named: bool = True,
    throttle_ms: int = 0,
    batches: Sequence[bytes | bytearray] = (),
    aborted_at: int | None = None,
) -> Callable[[Asked], object]:
    """Batches of the one partition; `named`: it is in the answer at all."""

    def give(asked: Asked) -> object:
        schema: Any = fake.answers(asked)
        partition = schema.PartitionData(
            partition_index=0,
            error_code=Code.none,
            high_watermark=stable,
            last_stable_offset=stable,
            log_start_offset=0,
            aborted_transactions=None
            if aborted_at is None
            else (schema.AbortedTransaction(producer_id=9, first_offset=aborted_at),),
            records=b"".join([*map(record, offsets), *batches]),
        )
        (topic,) = asked.request.topics or (None,)
        named_by = {"topic_id": getattr(topic, "topic_id", None)}
        responses = (schema.FetchableTopicResponse(**named_by, partitions=(partition,)),)
        return schema.FetchResponse(
            throttle_time=fake.no_time(throttle_ms),
            error_code=Code.none,
            session_id=0,
            responses=responses if named else (),
        )

    return give


QUOTA = answer(named=False, throttle_ms=THROTTLED)
OPEN = batch_of(some(1, first=1), producer_id=9)
ABORTED = [marker(0, 9, 1), OPEN, marker(2, 9, 0)]
COMMITTED = [marker(0, 9, 1), OPEN, marker(2, 9, 1)]


async def read(cluster: Cluster) -> list[int]:
    topic = await cluster.topic("t")
    return [each.offset async for each in committed_records(cluster, topic, 0, 0, END)]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([QUOTA, answer(0, 1), QUOTA, QUOTA, answer(2)], id="a quota empties answers"),
        pytest.param([answer(0), answer(stable=1), answer(1, 2)], id="a new leader knows less"),
        pytest.param([answer(stable=-1), answer(0, 1, 2)], id="nothing is known yet"),
    ],
)
async def test_an_answer_without_batches_is_no_end(
    broker: FakeBroker, cluster: Cluster, answers: list[Callable[[Asked], object]]
) -> None:
    """Who packs segments deletes what it has read: an end too early would delete the rest too."""
    broker.then(fake.FETCH, *answers)

    assert await read(cluster) == [0, 1, 2]


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([answer(0), answer(stable=1), answer(stable=1), answer(1, 2)], id="it lags"),
        pytest.param([answer(0, 1), QUOTA, answer(2)], id="a quota empties answers"),
    ],
)
async def test_a_read_up_to_our_barrier_goes_on_past_the_high_watermark_of_a_new_leader(
    broker: FakeBroker, cluster: Cluster, answers: list[Callable[[Asked], object]]
) -> None:
    """What it does not show yet is committed: who took that end would go on from old positions."""
    broker.then(fake.FETCH, *answers)
    seen: list[int] = []

    def is_barrier(found: ControlRecord) -> bool:
        seen.append(found.offset)
        return found.offset == END - 1

    await read_up_to(cluster, TopicPartition("t", 0), is_barrier, deadline_s=5, start_offset=0)

    assert seen == [0, 1, 2]


async def test_what_compaction_took_is_not_waited_for(broker: FakeBroker, cluster: Cluster) -> None:
    broker.then(fake.FETCH, answer(0), answer(), answer(), answer())

    assert await read(cluster) == [0]


async def test_an_empty_answer_of_a_remote_tier_that_is_slow_is_no_end(
    broker: FakeBroker, cluster: Cluster
) -> None:
    broker.then(fake.FETCH, answer(0), answer(), answer(), answer(1), answer(), answer(2))

    assert await read(cluster) == [0, 1, 2]


async def test_an_end_that_is_never_reached_is_an_error(
    broker: FakeBroker, cluster: Cluster
) -> None:
    broker.then(fake.FETCH, *[answer(0), *[answer(stable=1)] * 100])

    with pytest.raises(DeadlineError, match=r"t-0.*nothing came from 1 on, wanted up to 3"):
        await read(cluster)


@pytest.mark.parametrize(
    ("batches", "aborted_at", "first"),
    [
        pytest.param([record(0), record(1), record(2)], None, 0, id="at the start"),
        pytest.param(COMMITTED, None, 1, id="behind a marker"),
        pytest.param(ABORTED, 1, None, id="aborted"),
        pytest.param(ABORTED, None, None, id="aborted, of which the list says nothing"),
        pytest.param([marker(number, 9, 1) for number in range(3)], None, None, id="markers"),
    ],
)
async def test_markers_and_what_was_aborted_are_no_committed_records(
    broker: FakeBroker,
    cluster: Cluster,
    batches: list[bytes],
    aborted_at: int | None,
    first: int | None,
) -> None:
    broker.then(fake.FETCH, answer(batches=batches, aborted_at=aborted_at))

    assert await first_committed(cluster, TopicPartition("t", 0), 0, END) == first
