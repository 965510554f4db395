"""Reading whole partitions with librdkafka: the judge's only contact with brokers.

`read_logs` gives back what a consumer of one isolation level is handed, from a start offset to an
end that no longer moves. CRCs are checked. Nothing is committed and no group is joined.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not in its __all__
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from tests.judge.difference import WholeRecord
from tests.judge.log import Log, Stamp, digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ASK_S = 15.0
"""Deadline of one question to a cluster."""

BATCH = 10_000
"""Most records taken from librdkafka in one call."""

ANSWERS = (50 << 20, 29 << 20)
"""Most bytes of a partition in an answer. A broker may leave an aborted transaction out of one that
ends just behind it (`mirrorfleet.wire.aborted`), and then hands out its records. What is committed
is handed out whatever an answer's size; with another size they end somewhere else."""

PAUSE_S = 0.1
"""Longest wait for more records before the ends are looked at again."""

BEHIND_S = 60.0
"""How long brokers may not know yet who leads. librdkafka hands such an answer on and leaves the
partition alone, where it may not choose an offset itself; another consumer may begin again."""

BEHIND = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""What a broker says that has not heard of the newest leader, is not it any more, or not yet: a new
one knows no end before its followers have told it theirs (KIP-207)."""


QUIET: dict[str, str | int] = {"log_level": 0, "reconnect.backoff.ms": 200}
"""librdkafka prints each failed attempt; what fails for good comes back as an error anyway."""


Answer = TypeVar("Answer")


class Isolation(StrEnum):
    """What a consumer is handed: records of committed transactions only, or of all."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class Until(StrEnum):
    """How far to read: to the end at this isolation level, or until no transaction is open."""

    END = "end"
    SETTLED = "settled"


class TimestampRule(StrEnum):
    """Which timestamp is digested.

    SEEN: the one a consumer sees, and its type. AS_CREATE: the same, but a broker's time counts as
    a producer's, which is what an exact copy makes of it. IGNORED: none.
    """

    SEEN = "seen"
    AS_CREATE = "as create"
    IGNORED = "ignored"


_STAMPS = {
    TimestampRule.SEEN: (Stamp.NONE, Stamp.CREATE, Stamp.APPEND),
    TimestampRule.AS_CREATE: (Stamp.NONE, Stamp.CREATE, Stamp.CREATE),
    TimestampRule.IGNORED: (Stamp.NONE, Stamp.NONE, Stamp.NONE),
}


class At(NamedTuple):
    """A partition by topic name."""

    topic: str
    partition: int


class ReadingError(Exception):
    """Raised when a cluster cannot be read; the judge then knows nothing."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How librdkafka reaches a cluster; `properties` are its own (security, for example)."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def client(self) -> dict[str, str | int | float | bool]:
        """Settings of any client of librdkafka."""
        return {"bootstrap.servers": self.bootstrap, **QUIET, **self.properties}

    def admin(self) -> AdminClient:
        """Give a client for questions."""
        return AdminClient(self.client)


class Ends(NamedTuple):
    """Offsets at which a partition ends for the two kinds of consumer (LSO, high watermark)."""

    committed: int
    uncommitted: int


class Reading(NamedTuple):
    """What was read. `finished`: everything that was to be read was there in time."""

    log: Log
    ends: Ends
    finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How to read partitions.

    A partition is finished at `until`, once it has `at_least` so many records. Until all are,
    more is waited for; `patience_s` without a wanted record ends that, once every partition was
    read to an end.
    """

    isolation: Isolation
    timestamps: TimestampRule
    until: Until = Until.END
    at_least: Mapping[At, int] = field(default_factory=dict)
    start: Mapping[At, int] = field(default_factory=dict)
    patience_s: float = 30.0
    answer_bytes: int = ANSWERS[0]


class _Handed(Protocol):
    """A consumed record as it is when no deserializer is set; the stubs of librdkafka say less."""

    def error(self) -> KafkaError | None: ...
    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...


def partitions_of(access: ClusterAccess, topics: Sequence[str]) -> dict[str, list[int]]:
    """Give the partition numbers of each topic that exists; missing topics are left out."""
    with _explained(access):
        found = access.admin().list_topics(timeout=ASK_S).topics
    return {
        topic: sorted(found[topic].partitions)
        for topic in topics
        if topic in found and found[topic].error is None
    }


def is_append_time(access: ClusterAccess, topic: str) -> bool:
    """Whether the broker writes its own time into the records of a topic."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    with _explained(access):
        admin = access.admin()  # must outlive its answers
        answer = admin.describe_configs([resource], request_timeout=ASK_S)
        configs = answer[resource].result(ASK_S)
    return str(configs["message.timestamp.type"].value) == "LogAppendTime"


def ends_of(
    access: ClusterAccess, partitions: Sequence[At], admin: AdminClient | None = None
) -> dict[At, Ends]:
    """Ask for both ends of many partitions at once; `admin` is a client that is connected."""
    if not partitions:
        return {}
    return _asked(access, lambda: _ends_of(admin or access.admin(), partitions))


def _ends_of(admin: AdminClient, partitions: Sequence[At]) -> dict[At, Ends]:
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # bare in 2.16
    wanted = {TopicPartition(*at): latest for at in partitions}
    found: list[dict[At, int]] = []
    for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        answers = admin.list_offsets(wanted, isolation_level=level, request_timeout=ASK_S)
        found.append(
            {At(tp.topic, tp.partition): f.result(ASK_S).offset for tp, f in answers.items()}
        )
    return {at: Ends(found[0][at], found[1][at]) for at in partitions}


def read_logs(access: ClusterAccess, partitions: Sequence[At], order: Order) -> dict[At, Reading]:
    """Read partitions at once, each from its start until its end stands still.

    All from the start again while a broker does not know who leads.
    """
    if not partitions:
        return {}
    return _asked(access, lambda: _read_logs(access, partitions, order))


def _read_logs(access: ClusterAccess, partitions: Sequence[At], order: Order) -> dict[At, Reading]:
    reader = _Reader(partitions, order)
    with _consumer(access, order.isolation, order.answer_bytes) as consumer:
        first = order.start
        consumer.assign([TopicPartition(*a, first.get(a, OFFSET_BEGINNING)) for a in partitions])
        useful, last_useful = -1, time.monotonic()
        while True:
            reader.take(cast("Sequence[_Handed]", consumer.consume(BATCH, PAUSE_S)))
            if reader.useful() > useful:
                useful, last_useful = reader.useful(), time.monotonic()
            patience_s = order.patience_s if reader.has_seen_ends() else ASK_S + order.patience_s
            out_of_patience = time.monotonic() - last_useful > patience_s
            if reader.has_reached_ends() or out_of_patience:
                reader.ends = ends_of(access, partitions)
                if reader.has_finished() or out_of_patience:
                    return reader.readings()


def read_one(access: ClusterAccess, at: At, offset: int) -> WholeRecord:
    """Read the whole record at an offset, whoever may see it."""
    with _explained(access), _consumer(access, Isolation.UNCOMMITTED) as consumer:
        consumer.assign([TopicPartition(*at, offset)])
        end = time.monotonic() + ASK_S
        while time.monotonic() < end:
            message = consumer.poll(PAUSE_S)
            if message is not None and message.error() is None:
                return _whole(cast("_Handed", message))
    raise ReadingError(f"{access.bootstrap} gave no record of {at.topic}-{at.partition} @ {offset}")


class _Reader:
    """The logs so far, and how far each partition's end has been seen."""

    def __init__(self, partitions: Sequence[At], order: Order) -> None:
        self._order = order
        self._stamps = _STAMPS[order.timestamps]
        self._logs = {at: Log() for at in partitions}
        self._seen_end = dict.fromkeys(partitions, -1)
        self.ends: dict[At, Ends] = {}

    def take(self, messages: Sequence[_Handed]) -> None:
        """Digest what librdkafka gave. The hot path: a few microseconds a record."""
        logs: Mapping[tuple[str, int], Log] = cast("Mapping[tuple[str, int], Log]", self._logs)
        stamps = self._stamps
        keep_time = self._order.timestamps is not TimestampRule.IGNORED
        for message in messages:
            if (error := message.error()) is not None:
                self._note(message, error)
                continue
            stamp, timestamp_ms = message.timestamp()
            log = logs[message.topic(), message.partition()]
            log.offsets.append(message.offset())
            log.digests += digest(
                message.key(),
                message.value(),
                message.headers(),
                timestamp_ms if keep_time else 0,
                stamps[stamp],
            )

    def _note(self, message: _Handed, error: KafkaError) -> None:
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        self._seen_end[At(message.topic(), message.partition())] = message.offset()

    def useful(self) -> int:
        """Records so far, of which those beyond what a partition is to have do not count."""
        wanted = self._order.at_least
        return sum(
            min(len(log), wanted[at]) if at in wanted else len(log)
            for at, log in self._logs.items()
        )

    def has_seen_ends(self) -> bool:
        """Whether each partition was once read to an end."""
        return min(self._seen_end.values()) >= 0

    def has_reached_ends(self) -> bool:
        """Whether each partition was once read to an end, with as many records as are wanted."""
        return self.has_seen_ends() and all(map(self._has_enough, self._logs))

    def has_finished(self) -> bool:
        """Whether all partitions are finished, by the ends asked for last."""
        return all(map(self._is_finished, self._logs))

    def readings(self) -> dict[At, Reading]:
        """Give all that was read."""
        return {
            at: Reading(log, self.ends[at], self._is_finished(at)) for at, log in self._logs.items()
        }

    def _has_enough(self, at: At) -> bool:
        return len(self._logs[at]) >= self._order.at_least.get(at, 0)

    def _is_finished(self, at: At) -> bool:
        ends, seen = self.ends[at], self._seen_end[at]
        if not self._has_enough(at):
            return False
        if self._order.isolation is Isolation.UNCOMMITTED:
            return seen >= ends.uncommitted
        if self._order.until is Until.SETTLED and ends.committed != ends.uncommitted:
            return False
        return seen >= ends.committed


def _whole(message: _Handed) -> WholeRecord:
    stamp, timestamp_ms = message.timestamp()
    return WholeRecord(
        message.offset(),
        timestamp_ms,
        Stamp(stamp),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


@contextmanager
def _consumer(
    access: ClusterAccess, isolation: Isolation, answer_bytes: int = ANSWERS[0]
) -> Iterator[Consumer]:
    consumer = Consumer(_settings(access, isolation, answer_bytes))
    try:
        yield consumer
    finally:
        consumer.close()


def _settings(
    access: ClusterAccess, isolation: Isolation, answer_bytes: int
) -> dict[str, str | int | bool]:
    return {
        "bootstrap.servers": access.bootstrap,
        "group.id": "judge",  # librdkafka wants one; it is never joined
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": isolation.value,
        "check.crcs": True,
        "fetch.wait.max.ms": 50,
        "fetch.message.max.bytes": answer_bytes,
        "queued.min.messages": 1_000_000,
        "queued.max.messages.kbytes": 64 << 10,
        **QUIET,
        **access.properties,
    }


def _asked(access: ClusterAccess, ask: Callable[[], Answer]) -> Answer:
    end = time.monotonic() + BEHIND_S
    with _explained(access):
        while True:
            try:
                return ask()
            except KafkaException as error:
                if error.args[0].code() not in BEHIND or time.monotonic() > end:
                    raise


@contextmanager
def _explained(access: ClusterAccess) -> Iterator[None]:
    try:
        yield
    except (KafkaException, TimeoutError) as error:
        raise ReadingError(f"cannot read {access.bootstrap}: {error}") from error
