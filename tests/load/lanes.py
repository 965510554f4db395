"""Lanes: one librdkafka producer each, with a codec, a batch size and a share of the traffic.

A lane runs in a thread of its own, paced by the clock, until told to stop; then it waits for its
answers. `Plain` produces; `Transactional` does so in committed and aborted transactions.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.load.recipes import Recipe, record
from tests.load.tally import At, Tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from threading import Event

TICK_S = 0.01
"""Pause between two looks at the clock."""

ANSWER_S = 60.0
"""Deadline for answers, and for librdkafka to end a transaction when it is asked once.

After a broker was killed and started again librdkafka 2.16 may send it nothing more until the time
of a record is over (five minutes): one lane of six did so after one kill of twenty. A new producer
goes on."""

END_S = 3 * ANSWER_S
"""For how long the end of a transaction is asked for: librdkafka gives records up after a minute,
and only then says that the transaction must be aborted."""

SETTLED_S = 10.0
"""Between two looks of a lane without transactions whether all that it sent is answered."""

FORGOTTEN_S = 3.0
"""From the end of a transaction to that of the next one: less, unless a broker was away. One that
dies before it has written the markers of a transaction that it has called committed may forget
them (4.3: KAFKA-20734); then the next one's end is that of both. Measured: a commit that was
acknowledged milliseconds before its broker was killed vanished with the abort after it."""

FEWER_THAN_IDEMPOTENT = 4
"""Requests on the way to a broker. An idempotent producer may have five batches of a partition on
the way; while it has, and the next waits, librdkafka 2.16 turns in a circle, a core for itself."""

COMMIT_SHARE = 0.75
"""Of the transactions; the others are aborted."""


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """A lane's producer. `weight`: its share of the rate; `transactions_per_s`: 0 for none."""

    name: str
    weight: float
    settings: Mapping[str, str | int | bool] = field(default_factory=dict)
    transactions_per_s: float = 0.0
    whole_batches: bool = False
    """Whether runs go as the batches that they are, by `BatchedLane`; `settings` are nobody's."""


LARGE: dict[str, str | int | bool] = {"linger.ms": 50, "batch.size": 900_000}
SMALL: dict[str, str | int | bool] = {"linger.ms": 20, "batch.size": 16_384}
TINY: dict[str, str | int | bool] = {"linger.ms": 0, "batch.num.messages": 1}

MIX = (
    LaneSpec("none", 1.0, {"compression.type": "none", **SMALL}),
    LaneSpec("gzip", 0.7, {"compression.type": "gzip", **LARGE}),
    LaneSpec("snappy", 1.0, {"compression.type": "snappy", **SMALL}),
    LaneSpec("lz4", 2.0, {"compression.type": "lz4", **LARGE}),
    LaneSpec("zstd", 1.5, {"compression.type": "zstd", **LARGE}),
    LaneSpec("tiny", 0.05, {"compression.type": "none", **TINY}),
    LaneSpec("txn-lz4", 1.0, {"compression.type": "lz4", **SMALL}, transactions_per_s=3),
    LaneSpec("txn-none", 0.1, {"compression.type": "none", **SMALL}, transactions_per_s=4),
)
"""All codecs, transactions with commits and aborts, batches of one record and of thousands."""


STEADY = (LaneSpec("steady", 1.0, {"compression.type": "none", **SMALL}),)
"""Each partition has its turn at equal distances, and nothing is withheld by a transaction: what a
stall of the copy of one among very many is measured with."""

WHOLE = (LaneSpec("whole", 1.0, whole_batches=True),)
"""The same for next to no CPU."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a lane is to do. `pool`: recipes that all lanes share; `rate`: its records a second.

    `stride`: steps through the pool. Transactions that stay with one partition for long would leave
    all others without a marker, and markers tell when the source showed what. `sticky`: so many
    in the pool are for one partition in turn.
    """

    client: Mapping[str, str]
    pool: Sequence[Recipe]
    seed: str
    rate: float
    stride: int = 1
    sticky: int = 1


class Ended(NamedTuple):
    """A transaction that was counted, by what became of it."""

    counted: Counter[At]
    sent: Counter[At]
    at: float


def is_over(error: KafkaException | SystemError) -> bool:
    """Whether a transaction, or its producer, takes no more: a new producer must begin anew.

    Of a fatal error in the middle of a callback Python says that it came at a wrong time. `produce`
    tells neither that an error is fatal nor that one must abort: it says `_FATAL` or `_STATE`.
    """
    cause = error if isinstance(error, KafkaException) else error.__cause__
    if not isinstance(cause, KafkaException):
        return False
    told = cause.args[0]
    return bool(told.fatal() or told.name() in {"_FATAL", "_STATE"})


class Lane:
    """A producer with its pool, its running number and its tally."""

    def __init__(self, spec: LaneSpec, job: Job) -> None:
        self.spec, self.job = spec, job
        self.tally = Tally()
        self._dice = random.Random(f"{job.seed}/{spec.name}")
        self._number = self._dice.randrange(10**6) * 10**5
        self._sent: Counter[At] = Counter()
        self._refused: Counter[At] = Counter()
        self._last: Ended | None = None
        self._open()

    def _open(self) -> None:
        self._producer = Producer(self._settings())
        self._answered_at = time.monotonic()
        """When all that was sent was answered the last time."""

    def _settings(self) -> dict[str, str | int | bool | object]:
        settings: dict[str, str | int | bool | object] = {
            "acks": "all",
            "enable.idempotence": True,
            "queue.buffering.max.kbytes": 32_768,
            "max.in.flight": FEWER_THAN_IDEMPOTENT,
            "delivery.report.only.error": True,
            "on_delivery": self._on_refusal,
            "log_level": 0,
            **self.spec.settings,
            **self.job.client,
        }
        if self.spec.transactions_per_s:
            settings["transactional.id"] = f"load-{self.job.seed}-{self.spec.name}"
        return settings

    def _on_refusal(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused[message.topic() or "", message.partition() or 0] += 1

    def run(self, stop: Event) -> None:
        """Produce at the lane's rate until `stop`, then wait for the answers."""
        mean = 0.0
        if self.spec.transactions_per_s:
            mean = max(1.0, self.job.rate / self.spec.transactions_per_s)
            self._producer.init_transactions(ANSWER_S)
        began = time.monotonic()
        made = 0
        while not stop.is_set():
            due = int((time.monotonic() - began) * self.job.rate) - made
            if not mean:
                made += self.send(due, stop)
                self._look()
            elif due >= mean:
                made += self._transaction(self._dice.randint(1, int(2 * mean) - 1))
            stop.wait(TICK_S)
        self._finish()

    def send(self, count: int, stop: Event | None = None) -> int:
        """Hand `count` records to librdkafka; fewer when told to stop while its queue is full."""
        pool, now_ms = self.job.pool, int(time.time() * 1000)
        stride = self.job.stride
        for done in range(count):
            recipe = pool[self._number * stride % len(pool)]
            self._produce_one(recipe, now_ms)
            if stop is not None and stop.is_set():
                return done + 1
        self._producer.poll(0)
        return count

    def _produce_one(self, recipe: Recipe, now_ms: int) -> None:
        topic, partition, key, value, headers, stamp = record(recipe, self._number, now_ms)
        listed = list(headers) if headers else None
        self._number += 1
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition, timestamp=stamp, headers=listed
                )
            except BufferError:
                self._producer.poll(0.05)
                self._look()
            else:
                self._sent[topic, partition] += 1
                return

    def _look(self) -> None:
        """Now and then see that all is answered; where nothing is any more, begin anew.

        Not in a transaction: librdkafka gives that up itself, and its end is asked for.
        """
        if not self.spec.transactions_per_s and self._answered_s() > SETTLED_S:
            self._settle()
            if self._sent:
                self._give_up()
                self._open()

    def _answered_s(self) -> float:
        return time.monotonic() - self._answered_at

    def _settle(self) -> None:
        """Count what was sent, once all of it is answered; of what was refused nobody knows."""
        if not self._producer.flush(ANSWER_S):
            self._answered_at = time.monotonic()
            sent, refused = self._take_sent(), self._refused
            self._refused = Counter()
            self.tally.unknown.update(sent & refused)
            self.tally.committed.update(sent - refused)

    def _give_up(self) -> None:
        """Wait no longer for what was sent."""
        self._refused.clear()
        self.tally.unknown.update(self._take_sent())

    def _transaction(self, count: int) -> int:
        """Make one transaction and end it one way or the other."""
        try:
            self._producer.begin_transaction()
            self.send(count)
            if self._dice.random() < COMMIT_SHARE:
                self.commit()
            else:
                self.abort()
        except (KafkaException, SystemError) as error:
            if not is_over(error):
                raise
            self._begin_again()
        return count

    def _begin_again(self) -> None:
        """With a new producer: a coordinator that was away for long ended a transaction itself."""
        self.tally.unknown.update(self._take_sent())
        self._open()
        end = time.monotonic() + END_S
        while True:
            try:
                self._producer.init_transactions(ANSWER_S)
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > end:
                    raise
            else:
                return

    def commit(self) -> None:
        """Commit what was sent, asking again as long as librdkafka says that one may."""
        end = time.monotonic() + END_S
        while True:
            try:
                self._producer.commit_transaction(ANSWER_S)
                break
            except KafkaException as error:
                cause = error.args[0]
                if cause.retriable() and time.monotonic() < end:
                    continue
                if not cause.txn_requires_abort():
                    raise
                self._take_back()  # the answer that got lost may have been that it is committed
                self.tally.unknown.update(self._take_sent())
                return
        self._ended(self.tally.committed)
        self.tally.transactions_committed += 1

    def abort(self) -> None:
        """Abort what was sent, after it was written: an abort of nothing would test nothing."""
        self._take_back()
        self._ended(self.tally.aborted)

    def _ended(self, count: Counter[At]) -> None:
        """Count a transaction; the one before may have ended otherwise, if its broker died then."""
        now, before = time.monotonic(), self._last
        if before is not None and now - before.at > FORGOTTEN_S:
            before.counted.subtract(before.sent)
            self.tally.unknown.update(before.sent)
        self._last = Ended(count, self._take_sent(), now)
        count.update(self._last.sent)

    def _take_back(self) -> None:
        self._producer.flush(ANSWER_S)
        self._producer.abort_transaction(ANSWER_S)
        self.tally.transactions_aborted += 1

    def _take_sent(self) -> Counter[At]:
        sent, self._sent = self._sent, Counter()
        return sent

    def _finish(self) -> None:
        self._settle()
        self._give_up()

    def write_open(self, count: int) -> None:
        """Begin a transaction of `count` records and leave it open, all of them in the log."""
        self._producer.init_transactions(ANSWER_S)
        self._producer.begin_transaction()
        self.send(count)
        if self._producer.flush(ANSWER_S):
            raise TimeoutError(f"{self.spec.name}: records of an open transaction unanswered")
