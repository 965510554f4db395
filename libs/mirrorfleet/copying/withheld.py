"""Records that their broker may wrongly call committed: they wait for the marker of their end.

    epochs       4 4 4 4 4 4 │ 5 5 5 5        a leader of epoch 5, asked in epoch 5
    its index    as follower │ as leader      of what it appended as a follower it may lack an abort
                             │                (`wire/aborted.py` tells how)

A marker is believed more than the broker's list, but it may come in a later answer, when what it
aborts is committed on the target. So what is older than the leader's epoch, and all that a follower
hands out, is sent once the marker was seen. Nearly always it is in the same answer. No transaction
waits longer than `LONGEST_S`, nor one whose marker cannot come: where there is no room to read on,
where its partition stands still, and where the log ends before it (`Slot`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.ids import SourceOffset

if TYPE_CHECKING:
    from mirrorfleet.wire.copybatch import Walked

LONGEST_S: Final = 30.0
"""As long as a leader may be away. What a consumer of the source sees must not stay away for good
where a marker does not come, as behind a transaction that hangs."""
SHORT_S: Final = 2.0
"""Where somebody waits for memory, which may be what is withheld: then no marker can come."""
FOLLOWER: Final = -1
"""An epoch that nothing is of: of what a follower hands out nothing is sure."""


class _Waiting(NamedTuple):
    """Where a transaction begins, and when that came (monotonic seconds)."""

    first: SourceOffset
    since: float


@dataclass(slots=True)
class Withheld:
    """What waits of one partition."""

    at: SourceOffset | None = None
    """Nothing from here on may be sent; None when all may."""
    _of: dict[int, _Waiting] = field(default_factory=dict)
    """By producer."""

    def __bool__(self) -> bool:
        return bool(self._of)

    @property
    def since(self) -> float:
        """Since when the first of them waits."""
        return min(each.since for each in self._of.values())

    def heed(self, walked: Walked, begun: SourceOffset, epoch: int | None, now: float) -> None:
        """Take what came from offset `begun` on; `epoch` is the leader's, None: all is sure."""
        before, sure_from = self._of, _sure_from(walked, epoch)
        self._keep(
            {
                who: before[who] if first < begun else _Waiting(SourceOffset(first), now)
                for who, first in walked.undecided.items()
                if (who in before if first < begun else first < sure_from)
            }
        )

    def expire(self, now: float) -> None:
        """Send what has waited for `LONGEST_S`."""
        self._keep({who: e for who, e in self._of.items() if now - e.since < LONGEST_S})

    def trust(self) -> None:
        """Send all of it though: no marker can come, or it was taken back."""
        self._keep({})

    def _keep(self, these: dict[int, _Waiting]) -> None:
        self._of = these
        self.at = min((each.first for each in these.values()), default=None)


def _sure_from(walked: Walked, epoch: int | None) -> SourceOffset:
    """From where on the broker has appended itself, as the leader of that epoch."""
    if epoch is None:
        return SourceOffset(0)
    own = (batch.first for batch in walked.batches if batch.leader_epoch == epoch)
    return next(own, walked.next_offset)
