"""Which partitions catch up, and so are read apart from the live tail: pure decisions.

Three answers in a row behind which there was more are a backlog. So is at once what would take as
many: a far connection brings 2 MB in a second, and all partitions of a slot share one. An answer
that has no room for a partition tells how many offsets it is behind, and those of others how many
bytes offsets take lately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.partition import Pace

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition

CATCH_UP_AFTER: Final = 3
"""Answers in a row that left more behind than they brought."""
MUCH: Final = 4 << 20
"""Bytes behind that take several answers, whatever the next ones bring."""


class Backlog:
    """Judges the partitions of one slot after each answer."""

    __slots__ = ("_offset_bytes",)

    def __init__(self) -> None:
        self._offset_bytes = 0.0

    def judge(self, partition: CopyPartition, offsets: int, answer_bytes: int) -> None:
        """An answer of so many bytes brought a partition so many offsets further, or nothing."""
        if partition.at_end or partition.source.last_stable < 0:
            partition.pace, partition.behind = Pace.LIVE, 0
            return
        if answer_bytes:
            partition.behind += 1
        if offsets:
            self._offset_bytes = answer_bytes / offsets
        left = partition.source.last_stable - partition.walked_to
        if partition.behind >= CATCH_UP_AFTER or left * self._offset_bytes >= MUCH:
            partition.pace = Pace.CATCH_UP
