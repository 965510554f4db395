"""Whether a process grows: samples of what it holds, and the slope of a line through them.

A slope says something after an hour only: what a process holds goes up and down with each fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

from tests.faultkit.process import descriptors, resident_mb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faultkit.process import ServiceProcess

TASKS: Final = "mirrorfleet_event_loop_tasks "
HOUR_S: Final = 3600.0
LEAST_SAMPLES: Final = 10
"""In an hour; the soak takes some 150."""
MOST_AN_HOUR: Final = {"rss_mb": 30.0, "descriptors": 20.0, "tasks": 20.0}
"""Above that it leaks: 30 MB an hour are 5 GB a week."""


class Holding(NamedTuple):
    """What a process holds at a moment (seconds since the run began)."""

    at_s: float
    rss_mb: float
    descriptors: int
    tasks: int


@dataclass
class Trend:
    """Samples of one process."""

    name: str
    samples: list[Holding] = field(default_factory=list)

    def look(self, process: ServiceProcess, at_s: float) -> None:
        """Take a sample; a process that is frozen or going has none."""
        try:
            text = process.get("/metrics").text
            found = Holding(at_s, resident_mb(process.pid), descriptors(process.pid), _tasks(text))
        except (httpx.HTTPError, OSError, AssertionError):
            return
        self.samples.append(found)

    def growth(self, since_s: float, until_s: float) -> list[str]:
        """What grew faster between two moments than anything that lives for weeks may."""
        if until_s - since_s < HOUR_S:
            return []
        kept = [sample for sample in self.samples if since_s <= sample.at_s <= until_s]
        if len(kept) < LEAST_SAMPLES:
            return [f"{self.name}: {len(kept)} samples in an hour, {LEAST_SAMPLES} wanted"]
        times = [sample.at_s for sample in kept]
        slopes = {
            what: slope([getattr(sample, what) for sample in kept], times) for what in MOST_AN_HOUR
        }
        return [
            f"{self.name}: {what} {slopes[what]:+.1f}/h, {most:g}/h at most"
            for what, most in MOST_AN_HOUR.items()
            if slopes[what] > most
        ]

    def __str__(self) -> str:
        if not self.samples:
            return f"{self.name}: no samples"
        times = [sample.at_s for sample in self.samples]
        parts = [
            f"RSS {_told([sample.rss_mb for sample in self.samples], times)} MB",
            f"descriptors {_told([sample.descriptors for sample in self.samples], times)}",
            f"tasks {_told([sample.tasks for sample in self.samples], times)}",
        ]
        return f"{self.name}, {len(times)} samples: " + ", ".join(parts)


def slope(values: Sequence[float], times: Sequence[float]) -> float:
    """Least squares: units an hour; 0 for fewer than two different moments."""
    count = len(values)
    mean_t, mean_v = sum(times) / count, sum(values) / count
    spread = sum((time - mean_t) ** 2 for time in times)
    if not spread:
        return 0.0
    rise = sum((t - mean_t) * (v - mean_v) for t, v in zip(times, values, strict=True))
    return rise / spread * HOUR_S


def _told(values: Sequence[float], times: Sequence[float]) -> str:
    first, last, most = values[0], values[-1], max(values)
    return f"{first:.0f} -> {last:.0f} (most {most:.0f}, {slope(values, times):+.1f}/h)"


def _tasks(metrics: str) -> int:
    line = next(line for line in metrics.splitlines() if line.startswith(TASKS))
    return int(float(line.removeprefix(TASKS)))
