"""Whether a process grows: samples of what it holds, and the slope of a line through them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

from tests.faults.regions.drill import descriptors, resident_mb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faultkit.process import ServiceProcess

TASKS: Final = "mirrorfleet_event_loop_tasks "
HOUR_S: Final = 3600.0


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
            found = Holding(at_s, resident_mb(process), descriptors(process), _tasks(text))
        except (httpx.HTTPError, OSError, AssertionError):
            return
        self.samples.append(found)

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
