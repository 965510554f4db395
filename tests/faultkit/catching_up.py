"""In which order partitions caught up after a cut, and how right the ETA told on the way was."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median


@dataclass
class CatchingUp:
    """Looks at what is live and at a backlog; either may be current first, or never."""

    live_s: float | None = None
    left_then: int | None = None
    """Records of the backlog that were not copied yet when the live partitions were current."""
    bulk_s: float | None = None
    told: list[tuple[float, float]] = field(default_factory=list)
    """Pairs of seconds: when an ETA of the backlog was told, and how long it was to take."""

    def seen(self, now_s: float, *, live: bool, bulk: bool, left: int, eta_s: float | None) -> bool:
        """Take one look, `now_s` seconds after the cut; whether both are current."""
        if live and self.live_s is None:
            self.live_s, self.left_then = now_s, left
        if bulk and self.bulk_s is None:
            self.bulk_s = now_s
        if eta_s is not None and self.bulk_s is None:
            self.told.append((now_s, eta_s))
        return self.live_s is not None and self.bulk_s is not None

    def live_first(self) -> bool:
        """Whether the live partitions were current while backlog was left."""
        if self.live_s is None or not self.left_then:
            return False
        return self.bulk_s is None or self.live_s < self.bulk_s

    def eta_error(self) -> float | None:
        """The median error of the ETA in the second half of the way, as a share of the truth."""
        if self.bulk_s is None:
            return None
        wrong = [
            abs(eta / (self.bulk_s - now) - 1)
            for now, eta in self.told
            if self.bulk_s / 2 <= now < 0.95 * self.bulk_s
        ]
        return median(wrong) if wrong else None
