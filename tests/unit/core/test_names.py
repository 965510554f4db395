"""Names that brokers hash: which partition of `__transaction_state` an id is in."""

from __future__ import annotations

import pytest

from mirrorfleet.core.ids import ClusterAlias, FleetName, SlotNumber
from mirrorfleet.core.names import _hashed, spare_id, transactional_id


@pytest.mark.parametrize(
    ("name", "hashed"),
    [
        ("", 0),
        ("hello", 99162322),
        ("Hello", 69609650),
        ("polygenelubricants", 0),
        ("Hello World", 862545276),
    ],
    ids=["empty", "small", "capital", "the smallest number", "negative"],
)
def test_a_name_is_hashed_as_by_java_without_its_sign(name: str, hashed: int) -> None:
    assert _hashed(name) == hashed


@pytest.mark.parametrize("partitions", [50, 8, 100])
def test_a_spare_id_is_in_the_partition_behind_its_main_one(partitions: int) -> None:
    for fleet in ("prod", "west-2"):
        for number in range(256):
            slot = FleetName(fleet), ClusterAlias("east"), SlotNumber(number)
            main, spare = transactional_id(*slot), spare_id(*slot)
            assert spare.startswith(f"{main}.spare-")
            assert _hashed(spare) % partitions == (_hashed(main) + 1) % partitions
