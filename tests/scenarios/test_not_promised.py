"""What is not promised, each shown once on real brokers, so that nobody has to find out.

Records that a read_uncommitted consumer sees twice are in `test_c1_killed_with_records_in_hand.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import (
    Made,
    abort,
    commit,
    create,
    put,
    read,
    seen,
    send,
    transactional,
    values,
)
from tests.judge.verdict import Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region


@pytest.mark.timeout(300)
def test_a_source_transaction_may_be_seen_in_one_partition_and_not_yet_in_another(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rule = {"name": "all", "topics": ["atomic-.*"], "configs": "ignore"}
    fleet = Fleet("atomic", east, west, tmp_path, topics=["paid:1"], rules=[rule])
    create(east, "atomic-paid")
    create(east, "atomic-shipped")
    create(west, "east.atomic-shipped", 1, cleanup_policy="compact")  # takes no record without key
    producer = transactional(east, "atomic")
    producer.begin_transaction()
    send(producer, "atomic-paid", [Made(b"order 1")])
    send(producer, "atomic-shipped", [Made(b"order 1", key=None)])
    producer.commit_transaction(20)
    with fleet.sync(), fleet.mirror():
        wait_until(
            lambda: values(west, "east.atomic-paid") == [b"order 1"],
            deadline_s=30,
            what="the half that flows",
            ignoring=(AssertionError,),
        )

    assert values(west, "east.atomic-shipped") == []


@pytest.mark.timeout(300)
def test_the_offset_of_a_copy_is_not_that_of_its_record(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("offsets", east, west, tmp_path, topics=["orders:1"])
    create(east, "offsets-orders")
    producer = transactional(east, "offsets")
    abort(producer, "offsets-orders", [Made(b"never")])
    commit(producer, "offsets-orders", [Made(b"first")])
    with fleet.sync(), fleet.mirror():
        report = fleet.judged()

    assert report.verdict is Verdict.PASS
    assert [each.offset for each in seen(east, "offsets-orders")] == [2]
    assert [each.offset for each in seen(west, "east.offsets-orders")] == [0]


@pytest.mark.timeout(300)
def test_a_key_that_moves_to_another_partition_at_the_source_moves_in_the_copy(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("growth", east, west, tmp_path, topics=["orders:2"])
    create(east, "growth-orders", 1)
    put(east, "growth-orders", [Made(b"1", key=b"a key", partition=0)])
    admin = AdminClient({"bootstrap.servers": address(east)})
    admin.create_partitions([NewPartitions("growth-orders", 2)])["growth-orders"].result(20)
    put(east, "growth-orders", [Made(b"2", key=b"a key", partition=1)])
    with fleet.sync(), fleet.mirror():
        report = fleet.judged(records=2)

    assert report.verdict is Verdict.PASS
    found = [[each.value for each in part] for part in read(west, "east.growth-orders", 2)]
    assert found == [[b"1"], [b"2"]]
