"""A source topic deleted and created again, with more, fewer and as many partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.mirror.making import create, delete, numbered, send, transactional
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from tests.integration.loss.conftest import Drill

MORE, FEWER, FAIL = "ls-gap-more", "ls-gap-fewer", "ls-fail-again"
PARTITIONS: Final = {MORE: (2, 3), FEWER: (3, 2), FAIL: (2, 2)}
"""Before and after."""
CAUSE: Final = "source-recreated"
SEEN: Final = [range(50)]
NEW: Final = range(1_000, 1_030)


def fill_with_an_open_end(drill: Drill) -> list[Producer]:
    """50 records a partition; behind them in partition 0 another 20 that are not committed."""
    opened = []
    for topic, (partitions, _) in PARTITIONS.items():
        create(drill.fleet.east, topic, partitions)
        for number in range(partitions):
            drill.fill(topic, 0, 50, partition=number)
        one = transactional(drill.fleet.east, f"open-{topic}")
        one.begin_transaction()
        send(one, topic, numbered(50, 70))
        opened.append(one)
    return opened


def recreate(drill: Drill) -> None:
    """Other topics under the old names, with other records."""
    for topic in PARTITIONS:
        delete(drill.fleet.east, topic)
    for topic, (_, partitions) in PARTITIONS.items():
        create(drill.fleet.east, topic, partitions)
        for number in range(partitions):
            drill.fill(topic, NEW.start, NEW.stop, partition=number)


@pytest.mark.timeout(300)
def test_a_recreated_source_topic_stops_or_begins_anew_and_the_ledger_says_what_it_had(
    drill: Drill,
) -> None:
    opened = fill_with_an_open_end(drill)
    for topic, (partitions, _) in PARTITIONS.items():
        for number in range(partitions):
            drill.wait_copied(topic, SEEN, partition=number)
    for topic in PARTITIONS:
        drill.wait_seen(topic, 0, 70)
    drill.remember(*PARTITIONS)
    recreate(drill)
    del opened

    for topic in (MORE, FEWER):
        drill.wait_copied(topic, [*SEEN, NEW])
        drill.wait_copied(topic, [*SEEN, NEW], partition=1)
    drill.wait_copied(MORE, [NEW], partition=2)
    drill.wait_copied(FEWER, SEEN, partition=2)
    whole = [("gap", 0, 50, 70, CAUSE), ("gap", 1, 50, 50, CAUSE)]
    assert sorted(drill.wait_ledger(MORE, 2)) == whole
    assert sorted(drill.wait_ledger(FEWER, 3)) == [*whole, ("gap", 2, 50, 50, CAUSE)]

    assert drill.fault(FAIL).startswith(f"{CAUSE} at source offset 50: ")
    assert drill.fault(FAIL, 1).startswith(f"{CAUSE} at source offset 50: ")
    assert sorted(drill.ledger(FAIL, "partition-faulted")) == [
        ("partition-faulted", 0, 50, 70, CAUSE),
        ("partition-faulted", 1, 50, 50, CAUSE),
    ]
    assert drill.run("resolve", f"{FAIL}-0", "--accept-gap", "50..70") == 0
    drill.wait_copied(FAIL, [*SEEN, NEW])
    drill.wait_copied(FAIL, SEEN, partition=1)  # its neighbour still waits for a word
    assert drill.run("resolve", f"{FAIL}-1", "--seek", "5") == 0
    drill.wait_copied(FAIL, [*SEEN, range(NEW.start + 5, NEW.stop)], partition=1)
    assert sorted(drill.ledger(FAIL)) == whole

    check_copies(drill)


def check_copies(drill: Drill) -> None:
    """Old and new records, and of the partition that is no more nothing is wrong but that."""
    report = drill.judged([MORE, FAIL], gaps={At(FAIL, 1): [(0, 5)]})
    assert report.verdict is Verdict.PASS
    fewer = drill.judged([FEWER])
    assert fewer.reasons == (f"east.{FEWER}-2: no such source partition",)
    assert [finding.anomalies for finding in fewer.findings] == [(), ()]
