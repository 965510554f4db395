"""A batch's stamps as spans, hop by hop: expected values written out, times in nanoseconds."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mirrorfleet.copying.budget import FrameLease, MemoryBudget
from mirrorfleet.copying.faults import Action
from mirrorfleet.copying.partition import CopyPartition, Pace, Queued
from mirrorfleet.copying.sampling import SampleBudget
from mirrorfleet.copying.transaction import Touch, Transaction
from mirrorfleet.core.ids import FleetName, SlotNumber, SourceOffset, TargetOffset
from mirrorfleet.records.traces import SampledBatch
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.log import JsonLines
from mirrorfleet.runtime.metrics import Metrics
from mirrorfleet.runtime.spans import SpanRecord
from mirrorfleet.runtime.telemetry import OFF, Telemetry
from mirrorfleet.slots.trace_topics import Tracing
from mirrorfleet.slots.tracing import Announcer, LinkTraces
from mirrorfleet.wire.copybatch import CopyBatch
from tests.fakes.clock import HandClock
from tests.unit.copying.making import LINK, SOURCE_TOPIC, TARGET_TOPIC, slot

SLOT = SlotNumber(0)
NOW_MS = 1_000_000
"""Wall clock when the monotonic one shows 100.0."""
BEFORE = SampledBatch(
    topic_id=SOURCE_TOPIC,
    partition=0,
    first=52,
    count=3,
    trace_id=0xAAAA,
    span_id=0xBBBB,
    committed_ms=NOW_MS - 5_750,
    hop=1,
)


class Kept(Telemetry):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__(None, 1.0)
        self.spans: list[SpanRecord] = []

    @property
    def on(self) -> bool:
        return True

    def offer(self, spans: Sequence[SpanRecord]) -> None:
        self.spans += spans


@dataclass
class World:
    """One link with its traces, and one partition of it."""

    per_second: float = 1.0
    clock: HandClock = field(default_factory=lambda: HandClock(wall_ms=NOW_MS))
    telemetry: Kept = field(default_factory=Kept)
    announcer: Announcer = field(default_factory=Announcer)
    metrics: Metrics = field(default_factory=Metrics)
    partition: CopyPartition = field(default_factory=lambda: next(iter(slot().partitions.values())))

    def __post_init__(self) -> None:
        self.traces = LinkTraces(
            LINK,
            self.telemetry,
            self.metrics,
            self.clock,
            budget=SampleBudget(self.per_second),
            announce=self.announcer.add,
        )

    def acknowledge(self, transaction: Transaction, first: int = 50, base: int = 900) -> None:
        """A batch of 5 records: asked at 94, fetched at 95, sent at 96, acknowledged at 98."""
        batch = CopyBatch(
            payload=b"x" * 39,
            payload_crc=0,
            attributes=0,
            count=5,
            base_timestamp=0,
            max_timestamp=NOW_MS - 5_500,
            first=SourceOffset(first),
            next_offset=SourceOffset(first + 5),
        )
        lease = FrameLease(MemoryBudget(1_000).account(), 100, asked_at=94.0)
        queued = Queued(batch, lease, fetched_at=95.0, pace=Pace.LIVE)
        transaction.sent(self.partition, queued, 96.0, 1)
        transaction.acknowledged(self.partition, base)
        self.traces.acknowledged(self.partition, queued, base, 98.0)

    def copy(self, first: int = 50) -> None:
        """One transaction with that batch; it is visible at 100, closing since 99."""
        transaction = Transaction(90.0)
        self.acknowledge(transaction, first)
        self.traces.committed(transaction, commit_s=1.0)

    def times(self) -> list[tuple[str, float, float]]:
        """(stage, begin, end) in seconds of the monotonic clock."""
        offset = NOW_MS / 1000 - 100.0
        return [
            (s.kind.name, s.start_ns / 1e9 - offset, s.end_ns / 1e9 - offset)
            for s in self.telemetry.spans
        ]

    def counted(self, origin: str) -> int:
        return self.metrics.counter(names.TRACES, "east->west", origin).value


def test_the_stages_of_a_batch_follow_each_other_from_asked_to_visible() -> None:
    world = World()

    world.copy()

    # Its newest record was made at 94.5, half a second after the fetch was asked for.
    assert world.times() == [
        ("copy", 94.5, 100.0),
        ("fetch", 94.5, 95.0),
        ("queue", 95.0, 96.0),
        ("produce", 96.0, 98.0),
        ("commit", 98.0, 100.0),
    ]
    whole, *stages = world.telemetry.spans
    assert whole.parent_id is None
    assert {s.parent_id for s in stages} == {whole.span_id}
    assert len({s.span_id for s in world.telemetry.spans}) == 5
    assert stages[-1].events == (("closing", (NOW_MS - 1_000) * 1_000_000),)
    assert world.counted("here") == 1


def test_a_span_says_which_batch_it_was() -> None:
    world = World()

    world.copy()

    assert world.telemetry.spans[0].subject == "orders"
    assert dict(world.telemetry.spans[0].attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "copy",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 50,
        "messaging.batch.message_count": 5,
        "mirrorfleet.link": "east->west",
        "mirrorfleet.slot": 0,
        "mirrorfleet.hop": 1,
        "mirrorfleet.pace": "live",
        "mirrorfleet.source.cluster_id": "source",
        "mirrorfleet.source.topic": "orders",
        "mirrorfleet.source.first_offset": 50,
        "mirrorfleet.source.next_offset": 55,
        "mirrorfleet.target.topic": "east.orders",
        "mirrorfleet.target.first_offset": 900,
        "mirrorfleet.target.next_offset": 905,
        "mirrorfleet.batch_bytes": 100,
        "mirrorfleet.record_time_ms": NOW_MS - 5_500,
    }


def test_the_next_hop_is_told_where_the_batch_lies_now() -> None:
    world = World()

    world.copy()

    whole = world.telemetry.spans[0]
    assert world.announcer.take() == {
        SLOT: [
            SampledBatch(
                topic_id=TARGET_TOPIC,
                partition=0,
                first=900,
                count=5,
                trace_id=whole.trace_id,
                span_id=whole.span_id,
                committed_ms=NOW_MS,
                hop=1,
            )
        ]
    }
    assert world.announcer.take() == {}


@pytest.mark.parametrize("order", ["announced first", "copied first"])
def test_a_hop_joins_the_trace_of_the_hop_before(order: str) -> None:
    world = World(per_second=0)
    world.traces.announced([BEFORE] if order == "announced first" else [_elsewhere()])

    world.copy()
    world.traces.announced([BEFORE])

    whole = world.telemetry.spans[0]
    assert (whole.trace_id, whole.parent_id) == (0xAAAA, 0xBBBB)
    assert whole.attributes["mirrorfleet.hop"] == 2
    # Committed by the hop before at 94.25: before that there was nothing to fetch.
    assert world.times()[:2] == [("copy", 94.25, 100.0), ("fetch", 94.25, 95.0)]
    assert len(world.telemetry.spans) == 5
    assert (world.counted("here"), world.counted("before")) == (0, 1)


def _elsewhere() -> SampledBatch:
    return SampledBatch(
        topic_id=TARGET_TOPIC,
        partition=7,
        first=0,
        count=1,
        trace_id=1,
        span_id=1,
        committed_ms=0,
        hop=1,
    )


def test_a_clock_that_is_wrong_moves_a_begin_between_asking_and_arrival_only() -> None:
    world = World(per_second=0)
    world.traces.announced(
        [
            SampledBatch(
                topic_id=SOURCE_TOPIC,
                partition=0,
                first=first,
                count=5,
                trace_id=1,
                span_id=first,
                committed_ms=committed_ms,
                hop=1,
            )
            for first, committed_ms in ((50, 0), (60, NOW_MS + 60_000))
        ]
    )

    world.copy(50)
    world.copy(60)

    assert [t for t in world.times() if t[0] == "fetch"] == [
        ("fetch", 94.0, 95.0),
        ("fetch", 95.0, 95.0),
    ]


def test_a_topic_that_the_hop_before_traces_is_not_traced_by_our_own_choice() -> None:
    world = World()
    world.traces.announced([BEFORE])

    world.copy(200)

    assert world.telemetry.spans == []


def test_the_budget_bounds_what_is_traced() -> None:
    world = World()

    world.copy(50)
    world.copy(60)

    assert world.counted("here") == 1


def test_what_an_interrupted_transaction_left_behind_is_not_traced() -> None:
    world = World()
    world.acknowledge(Transaction(90.0))

    after = Transaction(97.0)
    after.touched[world.partition] = Touch(TargetOffset(900))
    world.traces.committed(after, commit_s=1.0)

    assert world.telemetry.spans == []


def test_what_an_interrupted_transaction_left_behind_is_not_joined() -> None:
    world = World(per_second=0)
    world.traces.announced([_elsewhere()])
    world.acknowledge(Transaction(90.0))
    after = Transaction(97.0)
    after.touched[world.partition] = Touch(TargetOffset(900))
    world.traces.committed(after, commit_s=1.0)

    world.traces.announced([BEFORE])

    assert world.telemetry.spans == []


def test_an_aborted_batch_is_a_failed_trace_and_its_log_line_says_which() -> None:
    world = World()
    world.acknowledge(Transaction(90.0))
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    log = logging.Logger("aborting")  # noqa: LOG001 - outside the tree of loggers
    log.addHandler(handler)

    with world.traces.aborted(SLOT, Action.ABORT):
        log.warning("transaction aborted")
    log.warning("after it")

    whole = world.telemetry.spans[0]
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["trace_id"] == f"{whole.trace_id:032x}"
    assert first["span_id"] == f"{whole.span_id:016x}"
    assert "trace_id" not in second
    assert whole.error == whole.attributes["error.type"] == f"aborted-{Action.ABORT}"
    assert world.announcer.take() == {}


def test_an_abort_of_what_is_not_traced_says_nothing() -> None:
    world = World(per_second=0)

    with world.traces.aborted(SLOT, Action.ABORT):
        pass

    assert world.telemetry.spans == []


def test_without_telemetry_a_link_has_no_traces_at_all() -> None:
    world = World()
    tracing = Tracing(OFF, world.metrics, world.clock, fleet=FleetName("west"))

    assert tracing.link(LINK) is None
