"""A source topic deleted and created again, with more, fewer and as many partitions.

Its new log is shorter or longer than our position: then no offset is out of range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.integration.mirror.making import create, delete, numbered, send, transactional
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from tests.integration.loss.conftest import Drill
    from tests.integration.loss.neighbours import Neighbours

CAUSE: Final = "source-recreated"
WHOLE: Final = [("gap", 0, 50, 70, CAUSE), ("gap", 1, 50, 50, CAUSE)]
"""What the ledger says of the two partitions that all of them had."""
SEEN: Final = [range(50)]
SHORTER, LONGER = range(1_000, 1_030), range(1_000, 1_080)


class Topics(NamedTuple):
    """Those of a case; the first two are under `record-gap`, the last under `recopy`."""

    more: str
    fewer: str
    fail: str
    copy: str

    @property
    def partitions(self) -> dict[str, tuple[int, int]]:
        """How many each has before and after."""
        same = dict.fromkeys((self.fail, self.copy), (2, 2))
        return {self.more: (2, 3), self.fewer: (3, 2), **same}


def fill_with_an_open_end(drill: Drill, topics: Topics) -> list[Producer]:
    """50 records a partition; behind them in partition 0 another 20 that are not committed."""
    opened = []
    for topic, (partitions, _) in topics.partitions.items():
        create(drill.fleet.east, topic, partitions)
        for number in range(partitions):
            drill.fill(topic, 0, 50, partition=number)
        one = transactional(drill.fleet.east, f"open-{topic}")
        one.begin_transaction()
        send(one, topic, numbered(50, 70))
        opened.append(one)
    return opened


def recreate(drill: Drill, topics: Topics, new: range) -> None:
    """Other topics under the old names, with other records."""
    for topic in topics:
        delete(drill.fleet.east, topic)
    for topic, (_, partitions) in topics.partitions.items():
        create(drill.fleet.east, topic, partitions)
        for number in range(partitions):
            drill.fill(topic, new.start, new.stop, partition=number)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("new", [SHORTER, LONGER], ids=["shorter", "longer"])
def test_a_recreated_source_topic_stops_or_begins_anew_and_the_ledger_says_what_it_had(
    drill: Drill, neighbours: Neighbours, new: range, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("ls-gap-more", "ls-gap-fewer", "ls-fail-again", "ls-copy-again")
    topics = Topics(*(f"{name}-{len(new)}" for name in names))
    opened = fill_with_an_open_end(drill, topics)
    for topic, (partitions, _) in topics.partitions.items():
        for number in range(partitions):
            drill.wait_copied(topic, SEEN, partition=number)
    for topic in topics:
        drill.wait_seen(topic, 0, 70)
    drill.remember(*topics)
    with neighbours.undisturbed(f"source topics were made again, {len(new)} records"):
        recreate(drill, topics, new)
        del opened
        check_rules(drill, topics, new)
        check_requests(drill, topics.fail, new, capsys)
    check_copies(drill, topics)


def check_rules(drill: Drill, topics: Topics, new: range) -> None:
    """The new log is copied from its start, behind what there was."""
    for topic in (topics.more, topics.fewer, topics.copy):
        drill.wait_copied(topic, [*SEEN, new])
        drill.wait_copied(topic, [*SEEN, new], partition=1)
    drill.wait_copied(topics.more, [new], partition=2)
    drill.wait_copied(topics.fewer, SEEN, partition=2)
    for topic in (topics.more, topics.copy):
        assert sorted(drill.wait_ledger(topic, 2)) == WHOLE
    gone = ("gap", 2, 50, 50, CAUSE)
    assert sorted(drill.wait_ledger(topics.fewer, 3)) == [*WHOLE, gone]


def check_requests(drill: Drill, fail: str, new: range, capsys: pytest.CaptureFixture[str]) -> None:
    """Each partition stands with what it had, and goes on by a word of its own."""
    assert drill.fault(fail).startswith(f"{CAUSE} at source offset 50: ")
    assert drill.fault(fail, 1).startswith(f"{CAUSE} at source offset 50: ")
    assert sorted(drill.wait_ledger(fail, 2, "partition-faulted")) == [
        ("partition-faulted", 0, 50, 70, CAUSE),
        ("partition-faulted", 1, 50, 50, CAUSE),
    ]
    question = "offsets", "translate", f"{fail}-0", "10"
    assert drill.run(*question) == 1  # an offset of the new topic, a map of the old one
    drill.wait_told(fail, 50)
    drill.refuse_skip(fail, capsys)
    assert drill.run("resolve", f"{fail}-0", "--accept-gap", "50..70") == 0
    drill.wait_copied(fail, [*SEEN, new])
    assert drill.run(*question) == 0
    drill.wait_copied(fail, SEEN, partition=1)  # its neighbour still waits for a word
    assert drill.run("resolve", f"{fail}-1", "--seek", "5") == 0
    drill.wait_copied(fail, [*SEEN, range(new.start + 5, new.stop)], partition=1)
    assert sorted(drill.ledger(fail)) == WHOLE


def check_copies(drill: Drill, topics: Topics) -> None:
    """Old and new records, and of the partition that is no more nothing is wrong but that."""
    copied = [topics.more, topics.fail, topics.copy]
    report = drill.judged(copied, gaps={At(topics.fail, 1): [(0, 5)]})
    assert report.verdict is Verdict.PASS
    fewer = drill.judged([topics.fewer])
    assert fewer.reasons == (f"east.{topics.fewer}-2: no such source partition",)
    assert [finding.anomalies for finding in fewer.findings] == [(), ()]
