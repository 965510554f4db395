"""What a worker tells of a partition that an operator has paused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.copying import limits
from mirrorfleet.records.catalog import CatalogState
from tests.unit.services.mirror.test_gauges import copying


@pytest.mark.parametrize(
    ("state", "stands"), [(CatalogState.ACTIVE, True), (CatalogState.PAUSED, False)]
)
def test_what_is_paused_with_records_before_it_does_not_stand_still(
    state: CatalogState, *, stands: bool
) -> None:
    """An alert would call somebody to what an operator wants."""
    runner, partition = copying()
    partition.progress_at -= 30.0
    runner.slot.renew(replace(partition.entry, state=state))

    (waited_s,) = dict(runner.gauges.since_progress()).values()

    assert (waited_s > 0) is stands


def test_what_waits_of_a_paused_partition_is_not_known() -> None:
    """Nothing is fetched: its source has moved on since."""
    runner, partition = copying()
    assert dict(runner.gauges.record_lag()) == {("east->west", "orders"): 15}

    runner.slot.renew(replace(partition.entry, state=CatalogState.PAUSED))

    assert dict(runner.gauges.record_lag()) == {}
    assert dict(runner.gauges.record_lag_unknown()) == {("east->west", "orders"): 1}
    assert limits.look_at(runner.slot, (), memory=0.0, cpu=0.0).behind == 0
