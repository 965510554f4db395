"""What a fetch answer brought of one partition, as the slot takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.copying.partition import SourceEnds
    from mirrorfleet.wire.copybatch import AbortedTransaction


@dataclass(frozen=True, slots=True)
class Answer:
    """One partition's part of a fetch answer: a byte range and the source's own numbers."""

    start: int
    end: int
    source: SourceEnds
    aborted: Sequence[AbortedTransaction]
    epoch: int | None = None
    """The leader's, by whom it was asked for (or `withheld.FOLLOWER`); None: all of it is sure."""
