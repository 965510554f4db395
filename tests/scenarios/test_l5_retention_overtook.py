"""L5: the line was cut so long that the source deleted records that were not copied.

MirrorMaker 2: goes on at the first record that is left, silently. Here: what is near is told
before (the alert MirrorfleetRetentionNear of `deploy/rules`), and by default the partition stands
still then and names the exact range; its neighbours do not notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from mirrorfleet.runtime import metric_names as names
from tests.faultkit.process import service
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.fleet import faults_of
from tests.integration.mirror.making import create, numbered, put, values
from tests.judge.verdict import Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorfleet.runtime.metric_names import Metric
    from services.local.region import Region
    from tests.faultkit.process import ServiceProcess

RETENTION_S: Final = 600
"""The alert tells of what is less than an hour away."""
LATE_S: Final = 60
"""And late for longer: a live topic never has more left than its retention."""


def delete_up_to(region: Region, topic: str, offset: int) -> None:
    """Delete as retention does: everything below an offset."""
    admin = AdminClient({"bootstrap.servers": address(region)})
    for each in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        each.result(20)


def gauge(process: ServiceProcess, metric: Metric, topic: str) -> float | None:
    """What a service shows of a topic."""
    lines = process.get("/metrics").text.splitlines()
    ours = (line for line in lines if line.startswith(f"{metric.name}{{"))
    return next((float(e.split()[-1]) for e in ours if f'topic="{topic}"' in e), None)


@pytest.mark.timeout(300)
def test_l5_the_missing_range_is_named_and_nothing_is_skipped(
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("l5", east, west, tmp_path, topics=["other:1"])
    create(east, "l5-short", 1, retention_ms=RETENTION_S * 1_000)
    create(east, "l5-other", 1)
    put(east, "l5-short", numbered(0, 100))
    with fleet.sync():
        with fleet.mirror():
            wait_until(
                lambda: len(values(west, "east.l5-short")) == 100,
                deadline_s=30,
                what="the first copies",
                ignoring=(AssertionError,),
            )
        # the worker is away, as after a cut, and records come and go
        put(east, "l5-short", numbered(100, 300))
        with service("lag", estate=fleet.estate, target="west", logs=fleet.logs) as lag:
            late_s = wait_until(
                lambda: ((s := gauge(lag, names.LAG_SECONDS, "l5-short")) or 0) > LATE_S and s,
                deadline_s=3 * LATE_S,
                what="records that are late",
            )
            left_s = gauge(lag, names.LAG_HEADROOM, "l5-short")
        delete_up_to(east, "l5-short", 250)
        put(east, "l5-other", numbered(0, 100))
        with fleet.mirror() as mirror:
            faults = wait_until(lambda: faults_of(mirror), deadline_s=60, what="the fault")
            report = fleet.judged(records=100)

    print(f"late for {late_s:.0f} s, told before: {left_s:.0f} s until retention takes them")
    assert left_s is not None
    assert RETENTION_S - 3 * LATE_S < left_s < RETENTION_S - LATE_S
    assert set(faults) == {("l5-short", 0)}
    assert "[100, 250)" in faults["l5-short", 0]
    assert values(west, "east.l5-short") == [b"%020d" % number for number in range(100)]
    assert report.verdict is Verdict.PASS
