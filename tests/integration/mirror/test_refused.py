"""What the target does not take stops its own partition, says so, and heals when it may."""

from __future__ import annotations

from tests.faultkit.waiting import wait_until
from tests.integration.mirror import content
from tests.integration.mirror.conftest import Matrix
from tests.integration.mirror.fleet import Fleet, faults_of, wait_faults, wait_values
from tests.integration.mirror.making import Made, alter_topic, put, values
from tests.judge.verdict import Verdict

WEST = "east."
HEALS_S = 15.0
"""A raised limit is seen by sync, published, and followed."""


def wait_faulted(fleet: Fleet, cause: str) -> list[dict[str, object]]:
    """The events of partitions that stopped for a cause; they are told a moment after."""
    return wait_until(
        lambda: [e for e in fleet.events("partition-faulted") if e["cause"] == cause],
        deadline_s=10,
        what=f"the event of {cause}",
    )


def test_a_record_without_key_stops_its_partition_of_a_compacted_target_at_its_offset(
    matrix: Matrix,
) -> None:
    fleet = matrix.fleet
    wait_values(fleet.west, WEST + content.KEYLESS_FAIL, 0, [b"0", b"1"])
    wait_values(fleet.west, WEST + content.KEYLESS_FAIL, 1, [b"%020d" % n for n in range(10)])

    fault = faults_of(matrix.mirror)[content.KEYLESS_FAIL, 0]
    assert fault == (
        "key-missing at source offset 2: the record has no key and the target topic is compacted"
    )
    (event,) = wait_faulted(fleet, "key-missing")
    assert (event["topic"], event["partition"]) == (content.KEYLESS_FAIL, 0)
    assert (event["first"], event["end"]) == (2, 3)


def test_records_without_key_are_dropped_and_recorded_where_the_rule_says_so(
    matrix: Matrix,
) -> None:
    fleet = matrix.fleet
    wait_values(fleet.west, WEST + content.KEYLESS_DROP, 0, [b"0", b"1", b"3", b"5"])

    def dropped() -> list[dict[str, object]]:
        return fleet.events("records-dropped")

    events = wait_until(dropped, deadline_s=10, what="the drops in the events")
    where = [(e["topic"], e["partition"], e["first"], e["end"], e["cause"]) for e in events]
    assert where == [
        (content.KEYLESS_DROP, 0, 2, 3, "key-missing"),
        (content.KEYLESS_DROP, 0, 4, 5, "key-missing"),
    ]


def test_a_record_too_large_stops_its_partition_over_a_restart_until_the_limit_is_raised(
    matrix: Matrix,
) -> None:
    fleet = matrix.fleet
    small = [b"x" * 10, b"x" * 20]
    wait_values(fleet.west, WEST + content.OVERSIZE, 0, small)
    wait_values(
        fleet.west, WEST + content.OVERSIZE, 1, [b"%01000d" % n for n in range(100)]
    )  # split where the batch is too large and its records are not
    put(fleet.east, content.OVERSIZE, [Made(b"neighbours flow", partition=2)])
    plain = [b"%020d" % n for n in range(100)]
    wait_values(fleet.west, WEST + content.OVERSIZE, 2, [*plain, b"neighbours flow"])

    fault = wait_faults(matrix.mirror, (content.OVERSIZE, 0), (content.KEYLESS_FAIL, 0))
    says = fault[content.OVERSIZE, 0]
    assert says == (
        "record-too-large at source offset 2: a record of 40006 bytes makes a batch of 40073 bytes;"
        " max.message.bytes of the target topic is 20000"
    )
    assert says in matrix.mirror.text()
    (event,) = wait_faulted(fleet, "record-too-large")
    assert (event["topic"], event["partition"], event["first"]) == (content.OVERSIZE, 0, 2)
    assert values(fleet.west, WEST + content.OVERSIZE, 0) == small

    matrix.restart()  # goes on at offset 2, in the middle of the only batch
    fault = wait_faults(matrix.mirror, (content.OVERSIZE, 0), (content.KEYLESS_FAIL, 0))
    assert fault[content.OVERSIZE, 0] == says

    alter_topic(fleet.west, WEST + content.OVERSIZE, max_message_bytes=100_000)
    whole = [*small, b"x" * 40_000, b"x" * 30]
    wait_until(
        lambda: values(fleet.west, WEST + content.OVERSIZE, 0) == whole,
        deadline_s=HEALS_S,
        what="the partition to go on",
    )
    wait_until(
        lambda: fleet.events("partition-recovered"), deadline_s=5, what="the event of its recovery"
    )
    assert fleet.judged([content.OVERSIZE]).verdict is Verdict.PASS
