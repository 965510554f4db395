"""The offset map on a real broker: a million offsets, packed, and freed under a reader."""

from __future__ import annotations

from typing import Final

import pytest

from mirrorfleet.records.topics import ControlKind
from tests.integration.checkpoint.copied import Copied
from tests.integration.checkpoint.stored_map import SLOT, StoredMap

ASKED: Final = 1_000_000


@pytest.mark.timeout(400)
async def test_a_million_offsets_translate_exactly_before_and_after_packing(
    stored_map: StoredMap,
) -> None:
    copied = Copied()
    await stored_map.write(copied.transactions(2_000))
    before = await stored_map.follower()
    copied.check(before.index, ASKED)
    before.close()

    await stored_map.pack()
    bounds = await stored_map.store.bounds(ControlKind.SEGMENTS, SLOT)
    assert bounds == (1_999, 2_000)  # the newest one stays
    after = await stored_map.follower()
    copied.check(after.index, ASKED)
    after.close()


async def test_segments_freed_before_they_were_followed_are_found_in_the_archive(
    stored_map: StoredMap,
) -> None:
    copied = Copied()
    await stored_map.write(copied.transactions(200))
    follower = await stored_map.follower()
    copied.check(follower.index, 1_000)

    await stored_map.write(copied.transactions(700))
    await stored_map.pack()
    await stored_map.write(copied.transactions(30))
    while follower.applied(SLOT) < 930:
        await follower.step()
    follower.close()

    copied.check(follower.index, 10_000)
