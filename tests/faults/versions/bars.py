"""What Kafka's own tests of exactly once need beside a fleet: seeds, a reader along, bounces.

Seeder -> source topics -> the fleet's workers (Copiers) -> copies -> Along
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.faultkit.bites import freeze_in_transaction
from tests.faultkit.regions import address
from tests.faultkit.waiting import NotInTimeError, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from services.local.region import Region
    from tests.faultkit.bites import OpenAt
    from tests.faultkit.process import ServiceProcess
    from tests.versions.kit import Fleet

MADE_S = 120.0
"""Deadline for the last seeds, counted from when the bounces are over."""
STOP_S = 30.0
MEETS_S = 20.0
"""Deadline for an open transaction: some sixty tries, of which one in twenty meets one."""
AWAKE_S = 0.3
"""Between two of them. That a copier copies little meanwhile harms no test of these."""
HURRIED = 10.0


class Seeds(NamedTuple):
    """Numbered records 0..records-1 for a topic, dealt to its partitions in turn."""

    topic: str
    partitions: int
    records: int


@dataclass
class Seeder:
    """Makes seeds of all topics at an even pace, so that all are made after `spread_s` seconds.

    Who waits for them (`wait`) has no more use for the pace: then it is ten times as fast.
    """

    region: Region
    seeds: Sequence[Seeds]
    spread_s: float
    share: float = 0.0
    hurry: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    trouble: list[str] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Seeds that are still to come."""
        return sum(each.records - int(self.share * each.records) for each in self.seeds)

    def run(self) -> None:
        """Until all are made and answered, or `stop` is set."""
        settings = {"bootstrap.servers": address(self.region), "enable.idempotence": True}
        producer = Producer({**settings, "log_level": 0, "linger.ms": 5})
        looked = time.monotonic()
        while self.share < 1 and not self.stop.is_set():
            before, looked = looked, time.monotonic()
            pace = HURRIED if self.hurry.is_set() else 1.0
            share = min(self.share + pace * (looked - before) / self.spread_s, 1.0)
            for each in self.seeds:
                for number in range(int(self.share * each.records), int(share * each.records)):
                    value, at = b"%d" % number, number % each.partitions
                    producer.produce(each.topic, value, partition=at, on_delivery=self._answered)
            self.share = share
            producer.poll(0.01)
        producer.flush(STOP_S)

    def _answered(self, error: object, message: object) -> None:
        del message
        if error is not None:
            self.trouble.append(str(error))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Seed in a thread."""
        with in_thread(self.run, self.stop):
            yield

    def wait(self) -> None:
        """Until all is made; what is left comes faster now."""
        self.hurry.set()
        wait_until(lambda: self.left == 0, deadline_s=MADE_S, what="all seeds")


@dataclass
class Along:
    """A read_committed consumer that reads along and remembers the values of each partition."""

    region: Region
    topics: Sequence[tuple[str, int]]
    seen: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Until `stop` is set."""
        settings = {
            "bootstrap.servers": address(self.region),
            "group.id": "along",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
        consumer = Consumer(settings)
        at = [(topic, number) for topic, count in self.topics for number in range(count)]
        consumer.assign([TopicPartition(topic, n, OFFSET_BEGINNING) for topic, n in at])
        self.seen = {each: [] for each in at}
        try:
            while not self.stop.is_set():
                for message in consumer.consume(1_000, 0.2):
                    if message.error() is None:
                        place = (message.topic() or "", message.partition() or 0)
                        self.seen[place].append(int(message.value() or b"-1"))
        finally:
            consumer.close()

    @property
    def count(self) -> int:
        """Values that it has seen."""
        return sum(map(len, self.seen.values()))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Read in a thread."""
        with in_thread(self.run, self.stop):
            yield


@contextmanager
def in_thread(run: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Run beside the block; told to stop behind it."""
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(STOP_S + 5)


class Copiers:
    """Workers of a fleet that are bounced one after the other.

    `met`: partitions in which a transaction of one was open when something was bounced.
    """

    def __init__(self, fleet: Fleet, names: Sequence[str]) -> None:
        self.fleet, self.names = fleet, names
        self.met: list[OpenAt] = []
        self._stack = ExitStack()
        self._processes: dict[str, ServiceProcess] = {}

    def __enter__(self) -> Self:
        for name in self.names:
            self._start(name)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, name: str) -> None:
        process = self._stack.enter_context(self.fleet.starting(name))
        process.wait_url()  # as Connect's test, which waits for its REST side and for nothing else
        self._processes[name] = process

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """The block begins while this one stands still in an open transaction, until one was `met`.

        Transactions are open for a small part of the time: a bounce at any moment meets none. Who
        was started just now may have no slot; then the block begins without, and the next may meet.
        """
        process = self._processes[name]
        try:
            if not self.met:
                with suppress(NotInTimeError):
                    self.met = freeze_in_transaction(
                        process,
                        self.fleet.access,
                        self.fleet.copies,
                        deadline_s=MEETS_S,
                        awake_s=AWAKE_S,
                    )
            yield
        finally:
            process.thaw()

    def bounce(self, name: str, mode: str) -> None:
        """Stop one by SIGTERM (`clean`) or SIGKILL (`hard`), and start it again."""
        process = self._processes[name]
        process.check_alive()
        if mode == "clean":
            process.terminate()
            process.thaw()  # it may be `frozen`
            assert process.wait_exit(STOP_S) == 0
        else:
            process.kill()
        self._start(name)
