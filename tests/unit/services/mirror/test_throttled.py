"""A partition with a `throttle`: what is told of it while it waits for the next second."""

from __future__ import annotations

from tests.unit.copying.making import fetched, give
from tests.unit.services.mirror.test_gauges import NOW_MS, copying


def test_what_waits_for_its_throttle_does_not_stand_still_unless_the_target_takes_nothing() -> None:
    runner, partition = copying()
    partition.spent_until = runner.now + 16.0
    runner.now += 15.0
    assert dict(runner.gauges.since_progress()) == {("east->west", "0"): 0.0}
    assert runner.told.partitions[0].last_progress_ms == NOW_MS
    runner.now += 3.0
    assert dict(runner.gauges.since_progress()) == {("east->west", "0"): 2.0}
    give(runner.slot, partition, fetched((10, [b"a"])), end=25)
    assert dict(runner.gauges.since_progress()) == {("east->west", "0"): 18.0}
    assert runner.told.partitions[0].last_progress_ms == NOW_MS - 18_000


def test_a_worker_says_that_a_partition_waits_for_its_throttle_as_long_as_it_does() -> None:
    runner, partition = copying()
    assert runner.told.partitions[0].state == "live"
    partition.spent_until = runner.now + 16.0
    runner.now += 15.0
    assert runner.told.partitions[0].state == "throttled"
    assert dict(runner.gauges.partitions()) == {("east->west", "throttled"): 1}
    give(runner.slot, partition, fetched((10, [b"a"])), end=25)
    assert runner.told.partitions[0].state == "live", "it waits for the target"
    partition.rewind()
    assert runner.told.partitions[0].state == "throttled"
    runner.now += 1.0
    assert runner.told.partitions[0].state == "live"
