"""The traffic maker's tally is what is in the log."""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka import KafkaException, Producer

from services.local.region import Region
from tests.faultkit.bites import open_transactions
from tests.faultkit.markers import markers
from tests.faultkit.regions import access, address, data_directories
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.stored import stored
from tests.judge.reading import (
    At,
    Isolation,
    Order,
    TimestampRule,
    ends_of,
    partitions_of,
    read_logs,
)
from tests.load.lanes import MIX, Job, Lane, is_over
from tests.load.making import Load, create_topics
from tests.load.recipes import Topic, recipes


def test_the_tally_is_what_consumers_of_both_kinds_are_handed(east: Region) -> None:
    names = [f"load-{uuid4().hex[:8]}", f"table-{uuid4().hex[:8]}"]
    topics = [f"{names[0]}:3", f"{names[1]}:2:compact"]
    more = ["--seconds", "2", "--huge", "3000", "--left-open", "1"]
    with traffic(address(east), topics, rate=2000, seed=names[0], more=more) as run:
        tally = run.wait_end(2)
    cluster = access(east)
    numbers = partitions_of(cluster, names)
    places = [At(name, number) for name in names for number in numbers[name]]
    _wait_markers(east, places)
    committed, visible = (
        read_logs(cluster, places, Order(isolation=level, timestamps=TimestampRule.SEEN))
        for level in (Isolation.COMMITTED, Isolation.UNCOMMITTED)
    )
    assert {at: len(committed[at].log) for at in places} == dict(tally.committed)
    assert {at: len(visible[at].log) - len(committed[at].log) for at in places} == dict(
        tally.aborted
    )
    assert tally.records > 3000 + 2 * 1000
    assert tally.transactions_committed > 0
    assert tally.transactions_aborted >= 2
    assert tally.unknown.total() == 0


def test_each_run_is_one_batch_where_whole_ones_are_asked_for(east: Region) -> None:
    name = f"whole-{uuid4().hex[:8]}"
    more = ["--whole-batches", "--sticky", "32"]
    with traffic(address(east), [f"{name}:3"], rate=2000, seed=name, more=more) as run:
        wait_until(lambda: _ends(east, name) > 4000, deadline_s=30, what="two seconds of traffic")
        tally = run.stop()

    places = [At(name, number) for number in range(3)]
    order = Order(isolation=Isolation.COMMITTED, timestamps=TimestampRule.SEEN)
    logs = read_logs(access(east), places, order)
    assert {at: len(logs[at].log) for at in places} == dict(tally.committed)
    assert tally.unknown.total() == 0
    counts = [batch.records for at in places for batch in stored(east, name, at.partition)]
    assert counts.count(32) > 0.9 * len(counts)  # the first is cut, and those with large records


def test_a_lane_whose_coordinator_ended_its_transaction_goes_on_with_another_producer(
    east: Region,
) -> None:
    seed = f"fenced-{uuid4().hex[:8]}"
    with traffic(address(east), [f"{seed}:3"], rate=2000, seed=seed) as run:
        other = {"bootstrap.servers": address(east), "transactional.id": f"load-{seed}-txn-lz4"}
        # its lane must have begun: one that is fenced before that ends the load
        wait_until(lambda: _writers(east, seed) == 2, deadline_s=30, what="both lanes with ids")
        wait_until(lambda: _ends(east, seed) > 2000, deadline_s=30, what="a second of traffic")
        Producer(other).init_transactions(20)
        before = _ends(east, seed)
        wait_until(lambda: _ends(east, seed) > before + 3000, deadline_s=30, what="more records")
        tally = run.stop()
    places = [At(seed, number) for number in partitions_of(access(east), [seed])[seed]]
    _wait_markers(east, places)
    order = Order(isolation=Isolation.COMMITTED, timestamps=TimestampRule.SEEN)
    logs = read_logs(access(east), places, order)
    in_log = sum(len(each.log) for each in logs.values())
    assert tally.records <= in_log <= tally.records + tally.unknown.total()
    assert tally.transactions_committed > 0


def test_a_transaction_that_takes_no_more_records_is_over(east: Region) -> None:
    seed = f"over-{uuid4().hex[:8]}"
    client = {"bootstrap.servers": address(east)}
    create_topics(Load(bootstrap=address(east), topics=[Topic(seed, 1)]))
    job = Job(client, recipes([Topic(seed, 1)], seed=seed, count=4), seed, 1.0)
    [spec] = (spec for spec in MIX if spec.name == "txn-lz4")
    lane = Lane(spec, job)
    lane.write_open(1)
    Producer({**client, "transactional.id": f"load-{seed}-{spec.name}"}).init_transactions(20)

    def refused() -> KafkaException | None:
        """The lane learns by an answer that another one has its id."""
        try:
            lane.send(1)
        except KafkaException as error:
            return error
        return None

    error = wait_until(refused, deadline_s=30, what="a record to be refused")
    assert error is not None
    assert is_over(error), error


def _wait_markers(region: Region, places: list[At]) -> None:
    """The end of a transaction is told a moment before its markers are there."""
    wait_until(
        lambda: not open_transactions(access(region), places),
        deadline_s=30,
        what="the last markers",
    )


def _writers(region: Region, topic: str) -> int:
    """How many producers have ended a transaction there."""
    stored = (markers(data_directories(region), topic, number) for number in range(3))
    return len({each.producer_id for found in stored for each in found})


def _ends(region: Region, topic: str) -> int:
    places = [At(topic, number) for number in range(3)]
    return sum(end.uncommitted for end in ends_of(access(region), places).values())
