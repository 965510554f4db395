"""The bench's table: a row for each workload and system, and how the fleet compares."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from _typeshed import DataclassInstance

    from tests.bench.measure import Drain
    from tests.bench.workloads import Workload

Figures: TypeAlias = dict[str, "float | None"]
"""What was measured, by column."""
COLUMNS: Final = {
    "workload": 14,
    "delivery": 14,
    "system": 10,
    "mb_s": 7,
    "records_s": 10,
    "cpu_s_per_gb": 12,
    "records_per_core_s": 18,
    "src_broker_cpu_s_per_gb": 7,
    "dst_broker_cpu_s_per_gb": 7,
    "p50_ms": 7,
    "p99_ms": 7,
    "p999_ms": 7,
    "stall_s": 7,
    "rss_mb": 6,
}
_SHORT: Final = {
    "src_broker_cpu_s_per_gb": "src",
    "dst_broker_cpu_s_per_gb": "dst",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line: None where a figure does not apply."""

    workload: str
    delivery: str
    system: str
    kafka: str
    rtt_ms: float = 0.0
    security: str = "plaintext"
    mb_s: float | None = None
    records_s: float | None = None
    cpu_s_per_gb: float | None = None
    records_per_core_s: float | None = None
    src_broker_cpu_s_per_gb: float | None = None
    dst_broker_cpu_s_per_gb: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    rss_mb: float | None = None
    stall_s: float | None = None
    window_bytes: int | None = None


def is_ours(system: str) -> bool:
    """Whether a row's system is the fleet, with one worker (`fleet`) or more (`fleet x2`)."""
    return system.partition(" ")[0] == "fleet"


def figures(workload: Workload, drained: Drain) -> Figures:
    """What a measured piece of copying comes to, in the units of the table."""
    megabytes = drained.records * workload.record_bytes / 1_000_000
    gigabytes = max(megabytes / 1_000, 1e-9)
    return {
        "mb_s": megabytes / drained.seconds,
        "records_s": drained.records / drained.seconds,
        "cpu_s_per_gb": drained.cpu_s / gigabytes,
        "records_per_core_s": drained.records / max(drained.cpu_s, 0.01),
        "src_broker_cpu_s_per_gb": drained.source_cpu_s / gigabytes,
        "dst_broker_cpu_s_per_gb": drained.target_cpu_s / gigabytes,
        "rss_mb": drained.peak_rss_mb,
    }


def median(rounds: Sequence[Figures]) -> Figures:
    """Figure by figure; a delay of which a round has none was longer than all others."""

    def middle(name: str) -> float | None:
        found = [math.inf if (value := each[name]) is None else value for each in rounds]
        value = statistics.median(found)
        return None if math.isinf(value) else round(value, 3)

    return {name: middle(name) for name in rounds[0]}


def save(rows: Sequence[DataclassInstance], file: Path) -> None:
    """Write them as a JSON list."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


def aligned(columns: Mapping[str, int], rows: Sequence[DataclassInstance]) -> str:
    """A head and a line for each row, every column as wide as it says."""
    lines = ["  ".join(f"{_SHORT.get(name, name):>{size}}" for name, size in columns.items())]
    for row in rows:
        shown = asdict(row)
        lines.append("  ".join(f"{cell(shown[name]):>{size}}" for name, size in columns.items()))
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> str:
    """For reading; the two broker columns are CPU-seconds per gigabyte."""
    return aligned(COLUMNS, rows)


def cell(value: object) -> str:
    """A figure for reading; a dash where there is none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    return str(value)


def comparison(rows: Sequence[Row]) -> list[str]:
    """Sentences: the fleet against the best peer of each delivery, workload by workload."""
    found = []
    for fleet in (row for row in rows if row.system == "fleet"):
        peers = [r for r in rows if r.workload == fleet.workload and not is_ours(r.system)]
        for delivery in dict.fromkeys(peer.delivery for peer in peers):
            same = [peer for peer in peers if peer.delivery == delivery]
            found += _against(fleet, same, f"{fleet.workload}, MM2 {delivery}")
    return found


def _against(fleet: Row, peers: Sequence[Row], title: str) -> list[str]:
    def best(name: str, choose: Callable[[list[float]], float]) -> float | None:
        values = [getattr(peer, name) for peer in peers if getattr(peer, name) is not None]
        return choose(values) if values else None

    told = []
    for name, choose, unit in (
        ("cpu_s_per_gb", min, "times less CPU"),
        ("mb_s", max, "times the MB/s"),
        ("p99_ms", min, "times MM2's best p99"),
    ):
        ours, theirs = getattr(fleet, name), best(name, choose)
        if ours and theirs:
            ratio = theirs / ours if name == "cpu_s_per_gb" else ours / theirs
            told.append(f"{ratio:.2f} {unit}")
    return [f"{title}: {', '.join(told)}"] if told else []
