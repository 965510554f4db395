"""What the last look at the groups of a link has found."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirrorfleet.core.ids import Link
from mirrorfleet.offsets.homes import Decision, Home


@dataclass(slots=True)
class LinkReport:
    """The last look at a link. `looked_at` is monotonic, None before the first one in full."""

    link: Link
    decisions: dict[str, Decision] = field(default_factory=dict)
    checkpoints: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    """Groups that one of the clusters did not answer for, or did not take, or that nobody knows a
    place for, and why; also topics that cannot be spoken of, as "topic NAME": they are left out of
    every group."""
    looked_at: float | None = None
    trouble: str = ""

    def homes(self) -> Mapping[Home, int]:
        """Groups by home."""
        return Tally(decision.home for decision in self.decisions.values())
