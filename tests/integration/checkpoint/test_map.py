"""The offset map on a real broker: a million offsets, packed, and freed under a reader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest

from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.records.topics import ControlKind
from services.local.region import Region
from tests.integration.checkpoint.copied import Copied
from tests.integration.checkpoint.stored_map import SLOT, StoredMap

ASKED: Final = 1_000_000


@pytest.fixture
async def fleet(west: Region) -> AsyncIterator[StoredMap]:
    async with Cluster(west.settings()) as cluster:
        made = StoredMap(cluster)
        await made.make()
        yield made
        made.close()


async def test_a_million_offsets_translate_exactly_before_and_after_packing(
    fleet: StoredMap,
) -> None:
    copied = Copied()
    await fleet.write(copied.transactions(2_000))
    before = await fleet.follower()
    copied.check(before.index, ASKED)
    before.close()

    await fleet.pack()
    bounds = await fleet.store.bounds(ControlKind.SEGMENTS, SLOT)
    assert bounds.start == bounds.end == 2_000
    after = await fleet.follower()
    copied.check(after.index, ASKED)
    after.close()


async def test_segments_freed_before_they_were_followed_are_found_in_the_archive(
    fleet: StoredMap,
) -> None:
    copied = Copied()
    await fleet.write(copied.transactions(200))
    follower = await fleet.follower()
    copied.check(follower.index, 1_000)

    await fleet.write(copied.transactions(700))
    await fleet.pack()
    await fleet.write(copied.transactions(30))
    while follower.applied(SLOT) < 930:
        await follower.step()
    follower.close()

    copied.check(follower.index, 10_000)
