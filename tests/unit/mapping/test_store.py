"""How many segments are read at once from their topic."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import cast

import pytest

from mirrorfleet.core.ids import FleetName, SlotNumber
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.mapping import store as stored
from mirrorfleet.mapping.store import KafkaMapStore
from mirrorfleet.records.segments import Segment, encode_segment
from mirrorfleet.runtime.clock import SystemClock
from tests.unit.offsets.making import PARTITIONS, run_of

SLOT = SlotNumber(3)
END = 20
"""Ten segments, each with its marker; each weighs 5 with its two runs."""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Offsets of the records that were taken from the topic."""
    taken: list[int] = []

    async def committed(
        _: object, __: object, ___: int, start: int, end: int
    ) -> AsyncGenerator[SimpleNamespace, None]:
        # a batch has more than was asked for
        for offset in range(start + start % 2, end + 4, 2):
            taken.append(offset)
            run = run_of(10 * offset, 10 * offset + 5, 6 * offset)
            segment = Segment(SLOT, offset, tuple((one, (run,)) for one in PARTITIONS[:2]))
            yield SimpleNamespace(offset=offset, value=encode_segment(segment))

    monkeypatch.setattr(stored, "committed_records", committed)
    return taken


def map_store() -> KafkaMapStore:
    async def topic(name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name)

    cluster = SimpleNamespace(name="west", topic=topic)
    return KafkaMapStore(cast("Cluster", cluster), FleetName("west"), SystemClock())


@pytest.mark.parametrize(
    ("begin", "most", "offsets", "until"),
    [
        (0, 51, range(0, 20, 2), END),
        (0, 50, range(0, 20, 2), 19),
        (0, 11, range(0, 6, 2), 5),
        (5, 10, range(6, 10, 2), 9),
        (0, 1, [0], 1),
        (19, 1, [], END),
        (END, 1, [], END),
    ],
)
async def test_segments_are_read_up_to_a_weight_and_until_says_how_far(
    given: list[int], *, begin: int, most: int, offsets: range | list[int], until: int
) -> None:
    found = await map_store().segments(SLOT, begin, END, most=most)

    assert [one.offset for one in found.found] == list(offsets)
    assert found.until == until
    if until < END:
        assert given == list(offsets)  # nothing is decoded that does not belong to it
