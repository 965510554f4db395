"""What a read_uncommitted consumer of a copy sees beyond what was committed.

Pure. Reported and never judged: exactly once is a promise to read_committed consumers only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.judge.compare import OffsetRange
from tests.judge.log import DIGEST_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.judge.log import Log


@dataclass(frozen=True, slots=True)
class SeenTwice:
    """Records at target offsets `ranges` that only a read_uncommitted consumer sees.

    `hidden` of them, from aborted or still open transactions; `twice` of these have a committed
    copy too, so that such a consumer has them two times or more.
    """

    hidden: int
    twice: int
    ranges: tuple[OffsetRange, ...]


def seen_twice(committed: Log, uncommitted: Log) -> SeenTwice:
    """Compare the two readings of one target partition, both in offset order."""
    if len(committed) == len(uncommitted):
        return SeenTwice(0, 0, ())
    visible = set(committed.offsets)
    hidden = [i for i, offset in enumerate(uncommitted.offsets) if offset not in visible]
    wanted = {uncommitted.digest(index) for index in hidden}
    copied = wanted.intersection(_digests(committed))
    twice = sum(uncommitted.digest(index) in copied for index in hidden)
    return SeenTwice(len(hidden), twice, _ranges(uncommitted.offsets, hidden))


def _digests(log: Log) -> list[bytes]:
    raw = bytes(log.digests)
    return [raw[at : at + DIGEST_SIZE] for at in range(0, len(raw), DIGEST_SIZE)]


def _ranges(offsets: Sequence[int], indices: Sequence[int]) -> tuple[OffsetRange, ...]:
    ranges: list[OffsetRange] = []
    last = -2
    for index in indices:
        if index == last + 1:
            ranges[-1] = OffsetRange(ranges[-1].first, offsets[index])
        else:
            ranges.append(OffsetRange(offsets[index], offsets[index]))
        last = index
    return tuple(ranges)
