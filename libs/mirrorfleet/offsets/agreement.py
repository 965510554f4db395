"""How far a target log still is what was written to it, by the map's checksums.

A log that was cut keeps a prefix of what it had, so the last payload that is where the map says,
byte for byte, ends what is still there:

    map      [p0][p1][p2][p3]
    target   [p0][p1][x ][y]        x, y: whatever came since
                     ^ kept to here
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from mirrorfleet.core.ids import TargetOffset
from mirrorfleet.records.segments import Run


class Payload(NamedTuple):
    """What a stored batch holds: number of records, and CRC-32C of what follows its header."""

    records: int
    crc: int


def payloads_of(runs: Iterable[Run]) -> Iterator[tuple[TargetOffset, Payload]]:
    """Each payload that the map knows, with the target offset of its first record."""
    for run in runs:
        at = run.target_start
        for records, crc in run.payloads:
            yield at, Payload(records, crc)
            at = TargetOffset(at + records)


def kept_to(
    runs: Iterable[Run], stored: Mapping[TargetOffset, Payload]
) -> tuple[TargetOffset | None, bool]:
    """Behind the last payload of `stored` that the map knows too, None without any.

    Second: whether any payload is at a place of the map's with other bytes, of which one cannot
    say whether a broker has rewritten them.
    """
    kept: TargetOffset | None = None
    differs = False
    for at, payload in payloads_of(runs):
        found = stored.get(at)
        if found == payload:
            kept = TargetOffset(at + payload.records)
        elif found is not None and found.records == payload.records:
            differs = True
    return kept, differs
