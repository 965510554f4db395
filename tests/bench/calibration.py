"""What one core of this machine copies, for sizing: from the fleet's rows of a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.bench.rows import Row

CALIBRATED: Final = ("1k-plain", "100b-lz4", "single")
WANTED_RECORDS_S: Final = 2_000_000


def per_core(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Workload -> megabytes and records that one core of copiers moves in a second, and what the
    two brokers spend on a megabyte (`source`, `target`: core-seconds).
    """
    return {
        row.workload: {
            "mb_per_core_s": round(1_000 / row.cpu_s_per_gb, 1),
            "records_per_core_s": round(row.records_per_core_s or 0.0),
            "source_core_s_per_mb": round((row.src_broker_cpu_s_per_gb or 0.0) / 1_000, 6),
            "target_core_s_per_mb": round((row.dst_broker_cpu_s_per_gb or 0.0) / 1_000, 6),
        }
        for row in rows
        if row.system == "fleet" and row.cpu_s_per_gb
    }


def sentences(found: dict[str, dict[str, float]]) -> list[str]:
    """For reading: how many cores of copiers two million records a second would take."""
    return [
        f"{name}: {each['mb_per_core_s']:,.0f} MB, {each['records_per_core_s']:,.0f} records a"
        f" core-second; {WANTED_RECORDS_S:,} records/s take"
        f" {WANTED_RECORDS_S / each['records_per_core_s']:.1f} cores of copiers"
        for name, each in found.items()
        if each["records_per_core_s"]
    ]


def save(found: dict[str, dict[str, float]], file: Path) -> None:
    """Write them as JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=1) + "\n")
