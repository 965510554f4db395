"""What is told of a source that cannot be reached, though its copies were live."""

from __future__ import annotations

from dataclasses import replace

from mirrorfleet.core.ids import SourceOffset
from tests.unit.services.mirror.test_gauges import copying


def test_a_source_that_is_cut_off_from_live_copies_comes_nearer_to_its_retention() -> None:
    runner, partition = copying()
    partition.committed = replace(partition.committed, next_source=SourceOffset(25))
    partition.away_since = runner.clock.monotonic() - 600.0

    assert dict(runner.gauges.headroom()) == {("east->west",): 3_000.0}
