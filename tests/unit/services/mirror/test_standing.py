"""What is told of a partition that stands still."""

from __future__ import annotations

from mirrorfleet.copying.faults import Fault, FaultReason
from tests.unit.services.mirror.test_gauges import copying


def test_a_partition_that_stands_still_has_no_lag_for_nobody_looks_at_its_source() -> None:
    runner, partition = copying()
    partition.fault = Fault(FaultReason.SOURCE_DENIED, partition.walked_to, "READ was revoked")

    assert runner.told.partitions[0].lag_records is None
    assert dict(runner.gauges.record_lag()) == {}
    assert (runner.status["lag_records"], runner.status["lag_unknown"]) == (0, 1)
