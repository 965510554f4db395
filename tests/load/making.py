"""All lanes of a run together: topics made, threads started, stopped and counted."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.load.batched import BatchedLane
from tests.load.lanes import MIX, Job, Lane, LaneSpec
from tests.load.recipes import recipes
from tests.load.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.load.recipes import Recipe, Topic

POOL = 8192
"""Recipes that the lanes share; each walks them from a place of its own."""

OPEN_TIMEOUT_MS = 900_000
"""The broker's highest transaction timeout by default: an open transaction outlives the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is to be made.

    `rate`: records a second of all lanes together. `huge`: records of one more transaction that is
    committed and of one that is aborted, 0 for none. `left_open`: transactions of 100 records that
    stay open until the end of the run, and are then aborted. `sticky`: so many records in a row are
    for one partition, as producers send what has no key (KIP-480).
    """

    bootstrap: str
    topics: Sequence[Topic]
    rate: float = 1000.0
    seconds: float = threading.TIMEOUT_MAX
    seed: str = "0"
    mix: Sequence[LaneSpec] = MIX
    huge: int = 0
    left_open: int = 0
    sticky: int = 1
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def client(self) -> dict[str, str]:
        """How librdkafka reaches the cluster."""
        return {"bootstrap.servers": self.bootstrap, **self.properties}


def create_topics(load: Load) -> None:
    """Create the topics that do not exist, with the cluster's default number of replicas."""
    admin = AdminClient({**load.client, "log_level": 0})
    new = [
        NewTopic(
            topic.name,
            topic.partitions,
            -1,
            config={"cleanup.policy": "compact"} if topic.compacted else {},
        )
        for topic in load.topics
    ]
    for future in admin.create_topics(new, request_timeout=20).values():
        try:
            future.result(25)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def make(load: Load, stop: threading.Event, on_ready: Callable[[], None]) -> Tally:
    """Make traffic for `load.seconds` or until `stop`; give what was made once all is answered.

    `on_ready` is called when topics, producers and open transactions stand and traffic begins.

    Raises:
        ExceptionGroup: of what the lanes died of; the others were stopped then.
    """
    weight = sum(spec.weight for spec in load.mix)
    partitions = sum(topic.partitions for topic in load.topics)
    count = max(POOL, load.sticky * partitions)  # else some would never have their turn
    pool = recipes(list(load.topics), seed=load.seed, count=count, sticky=load.sticky)
    lanes = [_lane(load, pool, spec, load.rate * spec.weight / weight) for spec in load.mix]
    total = Tally()
    with _open_transactions(load, pool, total):
        on_ready()
        began = time.monotonic()
        timer = threading.Timer(load.seconds, stop.set)
        timer.start()
        failures = _run(lanes, stop)
        timer.cancel()
    total.seconds = time.monotonic() - began
    for lane in lanes:
        total.add(lane.tally)
    if failures:
        raise ExceptionGroup("lanes of the traffic maker failed", failures)
    return total


def _lane(load: Load, pool: Sequence[Recipe], spec: LaneSpec, rate: float) -> Lane:
    stride = load.sticky + 1 if spec.transactions_per_s and load.sticky > 1 else 1
    kind = BatchedLane if spec.whole_batches else Lane
    return kind(spec, Job(load.client, pool, load.seed, rate, stride, load.sticky))


def _run(lanes: Sequence[Lane], stop: threading.Event) -> list[Exception]:
    failures: list[Exception] = []

    def guarded(lane: Lane) -> None:
        try:
            lane.run(stop)
        except Exception as error:  # noqa: BLE001  # handed on in the group that `make` raises
            failures.append(error)
            stop.set()

    threads = [
        threading.Thread(target=guarded, args=(lane,), name=lane.spec.name) for lane in lanes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


@contextmanager
def _open_transactions(load: Load, pool: Sequence[Recipe], total: Tally) -> Iterator[None]:
    """Write the huge transactions, hold the open ones while the rest of the traffic flows."""
    spec = LaneSpec("", 0, {"transaction.timeout.ms": OPEN_TIMEOUT_MS, "linger.ms": 20}, 1.0)
    held: list[Lane] = []
    for number in range(load.left_open):
        held.append(_lane(load, pool, replace(spec, name=f"open-{number}"), 0))
        held[-1].write_open(100)
    for end in ("commit", "abort") if load.huge else ():
        lane = _lane(load, pool, replace(spec, name=f"huge-{end}"), 0)
        lane.write_open(load.huge)
        getattr(lane, end)()
        total.add(lane.tally)
    yield
    for lane in held:
        lane.abort()
        total.add(lane.tally)
