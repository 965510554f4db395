"""The judge on real brokers: an exact copy passes, and each planted fault is named.

The copies are made by librdkafka from the judge's own reading of the source, so nothing of the
product is involved on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from services.local.region import Region
from tests.faultkit.regions import access, address
from tests.faultkit.waiting import wait_until
from tests.judge.compare import Kind
from tests.judge.difference import WholeRecord
from tests.judge.judging import Copy, Pair, judge
from tests.judge.log import Stamp
from tests.judge.reading import At, partitions_of, read_one
from tests.judge.verdict import Demands, Evidence, Finding, MissingTail, Report, Verdict

RECORDS = 12
"""Records of a planted partition; faults are planted at the sixth."""

T0 = 1_700_000_000_000


Records = list[WholeRecord]


def written() -> Records:
    return [
        WholeRecord(n, T0 + n, Stamp.CREATE, b"k%d" % n, b"v%d" % n, (("a", b"1"), ("b", None)))
        for n in range(RECORDS)
    ]


def changed(change: Callable[[WholeRecord], WholeRecord]) -> Callable[[Records], Records]:
    return lambda records: [change(r) if n == 5 else r for n, r in enumerate(records)]


def swapped(records: Records) -> Records:
    return [*records[:5], records[6], records[5], *records[7:]]


PLANTS: list[tuple[str, Callable[[Records], Records], list[tuple[Kind, int, str]]]] = [
    ("nothing", lambda records: records, []),
    ("a loss", lambda records: records[:5] + records[6:], [(Kind.LOST, 1, "")]),
    ("a repeat", lambda records: records + records[3:6], [(Kind.REPEATED, 3, "")]),
    ("a swap", swapped, [(Kind.OUT_OF_ORDER, 1, "")]),
    ("an extra", lambda records: [*records, records[0]._replace(key=b"x")], [(Kind.EXTRA, 1, "")]),
    ("a short end", lambda records: records[:10], [(Kind.UNSEEN, 2, "")]),
    (
        "a changed key",
        changed(lambda r: r._replace(key=b"k6")),
        [(Kind.CHANGED, 1, "key b'k5' (2 B) became b'k6' (2 B) from byte 1")],
    ),
    (
        "a changed value",
        changed(lambda r: r._replace(value=b"V5")),
        [(Kind.CHANGED, 1, "value b'v5' (2 B) became b'V5' (2 B) from byte 0")],
    ),
    (
        "a null value made empty",
        changed(lambda r: r._replace(value=None)),
        [(Kind.CHANGED, 1, "value b'v5' (2 B) became null")],
    ),
    (
        "headers in another order",
        changed(lambda r: r._replace(headers=(("b", None), ("a", b"1")))),
        [(Kind.CHANGED, 1, "order of headers ['a', 'b'] became ['b', 'a']")],
    ),
    (
        "a null header made empty",
        changed(lambda r: r._replace(headers=(("a", b"1"), ("b", b"")))),
        [(Kind.CHANGED, 1, "header 1 'b': null became 'b': b'' (0 B)")],
    ),
    (
        "another timestamp",
        changed(lambda r: r._replace(timestamp_ms=T0 + 6)),
        [(Kind.CHANGED, 1, "timestamp 1700000000005 became 1700000000006")],
    ),
]


def produce(producer: Producer, topic: str, partition: int, records: Records) -> None:
    for record in records:
        producer.produce(
            topic,
            partition=partition,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp=record.timestamp_ms,
        )


def producer_of(region: Region, **settings: str) -> Producer:
    return Producer({"bootstrap.servers": address(region), "linger.ms": 1, **settings})


APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}


def create(
    region: Region, topic: str, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    admin = AdminClient({"bootstrap.servers": address(region)})
    new = NewTopic(topic, partitions, 1, config=config or {})
    for future in admin.create_topics([new]).values():
        future.result(20)
    known = partial(partitions_of, access(region), [topic])
    wait_until(  # the controller answered; this broker hears of it a little later
        lambda: len(known().get(topic, ())) == partitions, deadline_s=20, what=f"topic {topic}"
    )


@pytest.fixture
def topic(east: Region, west: Region) -> str:
    """A topic of one partition on both sides, empty."""
    name = f"judged-{uuid4().hex[:8]}"
    for region in (east, west):
        create(region, name)
    return name


def judged(east: Region, west: Region, pairs: Sequence[Pair], *, patience_s: float = 2) -> Report:
    copy = Copy(
        source=access(east),
        target=access(west),
        pairs=pairs,
        patience_s=patience_s,
    )
    return judge(copy)


@pytest.fixture(scope="module")
def planted(east: Region, west: Region) -> list[Finding]:
    """One partition a plant, judged in one go."""
    name = f"planted-{uuid4().hex[:8]}"
    for region in (east, west):
        create(region, name, len(PLANTS))
    source, target = producer_of(east), producer_of(west)
    for partition, (_, plant, _) in enumerate(PLANTS):
        produce(source, name, partition, written())
        produce(target, name, partition, plant(written()))
    assert (source.flush(20), target.flush(20)) == (0, 0)
    report = judged(east, west, [Pair(name, name)])
    assert report.verdict is Verdict.FAIL
    return sorted(report.findings, key=lambda finding: finding.partition)


@pytest.mark.parametrize("number", range(len(PLANTS)), ids=[name for name, *_ in PLANTS])
def test_each_planted_fault_is_named(planted: list[Finding], number: int) -> None:
    _, _, expected = PLANTS[number]
    found = planted[number].anomalies
    assert [(a.kind, a.count, a.difference) for a in found] == expected


def test_an_exact_copy_of_transactions_passes_and_shows_what_was_seen_twice(
    east: Region, west: Region, topic: str
) -> None:
    for region, aborted in ((east, b"never committed"), (west, b"v0")):
        producer = producer_of(region, **{"transactional.id": topic})
        producer.init_transactions(20)
        producer.begin_transaction()
        produce(producer, topic, 0, [written()[0]._replace(value=aborted)])
        assert producer.flush(20) == 0
        producer.abort_transaction(20)
        for record in written():
            producer.begin_transaction()
            produce(producer, topic, 0, [record])
            producer.commit_transaction(20)
    report = judged(east, west, [Pair(topic, topic)])
    assert (report.verdict, report.source_records, report.seen_twice) == (Verdict.PASS, 12, 1)


def test_a_transaction_still_open_in_the_target_makes_it_unknown(
    east: Region, west: Region, topic: str
) -> None:
    source, target = producer_of(east), producer_of(west, **{"transactional.id": topic})
    produce(source, topic, 0, written())
    target.init_transactions(20)
    target.begin_transaction()
    produce(target, topic, 0, written())
    target.commit_transaction(20)
    target.begin_transaction()
    produce(target, topic, 0, written()[:1])
    assert (source.flush(20), target.flush(20)) == (0, 0)
    report = judged(east, west, [Pair(topic, topic)])
    target.abort_transaction(20)
    assert report.reasons == (f"{topic}-0: a transaction is still open in the target",)
    assert report.verdict is Verdict.UNKNOWN


def test_a_transaction_still_open_in_the_source_is_no_part_of_the_truth(
    east: Region, west: Region, topic: str
) -> None:
    source, target = producer_of(east, **{"transactional.id": topic}), producer_of(west)
    source.init_transactions(20)
    source.begin_transaction()
    produce(source, topic, 0, written())
    source.commit_transaction(20)
    source.begin_transaction()
    produce(source, topic, 0, written())
    produce(target, topic, 0, written())
    assert (source.flush(20), target.flush(20)) == (0, 0)
    report = judged(east, west, [Pair(topic, topic)])
    source.abort_transaction(20)
    assert (report.verdict, report.source_records, report.reasons) == (Verdict.PASS, 12, ())


def test_a_broker_time_of_the_source_must_be_the_create_time_of_the_copy(
    east: Region, west: Region
) -> None:
    name = f"append-{uuid4().hex[:8]}"
    create(east, name, config=APPEND_TIME)
    create(west, name)
    source, target = producer_of(east), producer_of(west)
    produce(source, name, 0, written())
    assert source.flush(20) == 0
    seen = [read_one(access(east), At(name, 0), n) for n in range(RECORDS)]
    assert {record.stamp for record in seen} == {Stamp.APPEND}
    produce(target, name, 0, seen)
    assert target.flush(20) == 0
    assert judged(east, west, [Pair(name, name)]).verdict is Verdict.PASS


def test_a_target_with_its_own_broker_time_is_judged_without_timestamps(
    east: Region, west: Region, topic: str
) -> None:
    name = f"append-{uuid4().hex[:8]}"
    create(west, name, config=APPEND_TIME)
    for region, there in ((east, topic), (west, name)):
        producer = producer_of(region)
        produce(producer, there, 0, written())
        assert producer.flush(20) == 0
    assert judged(east, west, [Pair(topic, name)]).verdict is Verdict.PASS


def test_what_cannot_be_read_is_unknown(east: Region, west: Region, topic: str) -> None:
    producer = producer_of(east)
    produce(producer, topic, 0, written())
    assert producer.flush(20) == 0
    report = judged(east, west, [Pair("nowhere", "nowhere"), Pair(topic, "none")], patience_s=0.1)
    assert report.verdict is Verdict.UNKNOWN
    assert report.reasons == (
        "nowhere: no such source topic",
        "none-0: the target has no such partition",
        "none-0: 12 not seen at the end",
    )


def test_a_missing_end_is_a_loss_once_the_copier_says_that_it_is_done(
    east: Region, west: Region, topic: str
) -> None:
    producer = producer_of(east)
    produce(producer, topic, 0, written())
    assert producer.flush(20) == 0
    copy = Copy(
        source=access(east),
        target=access(west),
        pairs=[Pair(topic, topic)],
        patience_s=0.1,
    )
    evidence = [Evidence("kill -9", bit=False)]
    report = judge(copy, demands=Demands(missing_tail=MissingTail.LOST), evidence=evidence)
    assert (report.verdict, report.reasons) == (
        Verdict.FAIL,
        (f"{topic}-0: 12 not seen at the end",),
    )
