"""A position that an export says."""

from __future__ import annotations

from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.records.positions import Position
from tests.unit.copying.making import identity


def at_80(number: int = 0) -> Position:
    return Position(
        identity=identity(number),
        next_source=SourceOffset(80),
        leader_epoch=3,
        next_target=TargetOffset(91),
        records=80,
        bytes=4_000,
        time_ms=5,
    )
