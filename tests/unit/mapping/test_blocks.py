"""What a reader of the archive gets while others write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.core.ids import SlotNumber, TargetOffset
from mirrorfleet.mapping.blocks import live_blocks
from mirrorfleet.records.archive import BlockKey, encode_key
from tests.unit.mapping.lists import ListStore
from tests.unit.offsets.making import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mirrorfleet.mapping.store import StoredEntry

SLOT = SlotNumber(3)
FIRST, REPLACED, HEIR, LAST = (
    BlockKey(PARTITIONS[0], TargetOffset(n), TargetOffset(n + 1)) for n in range(4)
)


class Changing(ListStore):
    """One in which at each record that is read the next block gives way to its heir."""

    def __init__(self, *replaced: tuple[BlockKey, BlockKey]) -> None:
        super().__init__([])
        self._replaced = list(replaced)

    async def archive(
        self, slot: SlotNumber, begin: int, end: int
    ) -> AsyncGenerator[StoredEntry, None]:
        async for entry in super().archive(slot, begin, end):
            if self._replaced:
                old, new = map(encode_key, self._replaced.pop(0))
                self.log += [(new, b"heir"), (old, None)]
                self.compact()
                # tombstones stay for longer (delete.retention.ms)
                self.cleaned = {at for at in self.cleaned if self.log[at][1] is not None}
            yield entry


async def test_a_block_that_is_replaced_and_cleaned_away_under_a_reader_leaves_its_heir() -> None:
    store = Changing((REPLACED, HEIR), (HEIR, LAST))
    store.log = [(encode_key(FIRST), b"first"), (encode_key(REPLACED), b"replaced")]

    assert await live_blocks(store, SLOT) == {FIRST: b"first", LAST: b"heir"}
