"""Records that their broker may wrongly call committed: they wait for the marker of their end.

    epochs       4 4 4 4 4 4 │ 5 5 5 5        a leader of epoch 5, asked in epoch 5
    its index    as follower │ as leader      of what it appended as a follower it may lack an abort
                             │                (`wire/aborted.py` tells how)

A marker is believed more than the broker's list, but it may come in a later answer, when what it
aborts is committed on the target. So what is older than the leader's epoch, and all that a follower
hands out, is sent once the marker was seen. Nearly always it is in the same answer; nothing waits
longer than `LONGEST_S`, nor while there is no room to read on to the marker.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.ids import SourceOffset

if TYPE_CHECKING:
    from mirrorfleet.wire.copybatch import Walked

LONGEST_S: Final = 30.0
"""As long as a leader may be away. What a consumer of the source sees must not stay away for good
where a marker does not come, as behind a transaction that hangs."""
FOLLOWER: Final = -1
"""An epoch that nothing is of: of what a follower hands out nothing is sure."""


@dataclass(slots=True)
class Withheld:
    """What waits of one partition."""

    _first: dict[int, SourceOffset] = field(default_factory=dict)
    """By producer: where its transaction begins."""
    since: float = 0.0
    """When the first of them came (monotonic seconds)."""

    def __bool__(self) -> bool:
        return bool(self._first)

    @property
    def at(self) -> SourceOffset | None:
        """Nothing from here on may be sent; None when all may."""
        return min(self._first.values(), default=None)

    def heed(self, walked: Walked, begun: SourceOffset, epoch: int | None, now: float) -> None:
        """Take what came from offset `begun` on; `epoch` is the leader's, None: all is sure."""
        before, sure_from = self._first, _sure_from(walked, epoch)
        self._first = {
            who: SourceOffset(first)
            for who, first in walked.undecided.items()
            if (who in before if first < begun else first < sure_from)
        }
        if not before:
            self.since = now

    def trust(self) -> None:
        """Send it though: it cannot wait any longer, or was taken back."""
        self._first = {}


def _sure_from(walked: Walked, epoch: int | None) -> SourceOffset:
    """From where on the broker has appended itself, as the leader of that epoch."""
    if epoch is None:
        return SourceOffset(0)
    own = (batch.first for batch in walked.batches if batch.leader_epoch == epoch)
    return next(own, walked.next_offset)
