"""M2: the target cannot create a topic or partition (quota, storage, too few brokers).

MirrorMaker 2: a line in a log. Here: that topic is held with the reason, others flow, it is tried
again, and flows as soon as the target takes it.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

import pytest

from services.local.region import RegionSpec
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import create, numbered, put, values
from tests.judge.verdict import Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region
    from tests.conftest import Regions

AWAY: Final = 3
"""A broker without which three replicas are too many."""
FLOWS_S: Final = 60.0


def wait_flowed(fleet: Fleet, topic: str, count: int) -> None:
    """Wait until a copy has so many records."""
    wait_until(
        lambda: len(values(fleet.target, f"east.{topic}")) == count,
        deadline_s=FLOWS_S,
        what=f"{count} records of {topic}",
        ignoring=(AssertionError,),  # a copy that is not there yet
    )


@pytest.mark.timeout(300)
def test_m2_that_topic_waits_with_a_reason_others_flow_and_it_flows_once_the_target_takes_it(
    east: Region, regions: Regions, tmp_path: Path
) -> None:
    (target,) = regions(RegionSpec(name="trio", brokers=3))
    rules: list[dict[str, object]] = [
        {"name": "safe", "topics": ["m2-precious"], "replication_factor": 3},
        {"name": "rest", "topics": ["m2-.*"], "exclude": ["m2-precious"]},
    ]
    fleet = Fleet("m2", east, target, tmp_path, topics=["other:1", "precious:1"], rules=rules)
    create(east, "m2-other")
    put(east, "m2-other", numbered(0, 100))
    with fleet.sync() as sync, fleet.mirror():
        wait_flowed(fleet, "m2-other", 100)
        target.broker(AWAY).stop()
        try:
            create(east, "m2-precious")
            put(east, "m2-precious", numbered(0, 100))
            held = wait_until(lambda: refusals(fleet), deadline_s=60, what="the event of a refusal")
            status = sync.status()
            put(east, "m2-other", numbered(100, 200))
            wait_flowed(fleet, "m2-other", 200)
        finally:
            target.broker(AWAY).restart()
        began = time.monotonic()
        wait_flowed(fleet, "m2-precious", 100)
        print(f"it flowed {time.monotonic() - began:.1f} s after the broker was back")
        report = fleet.judged(records=300)

    assert report.verdict is Verdict.PASS
    assert {(event["topic"], event["kind"]) for event in held} == {("m2-precious", "topic-refused")}
    assert "replication" in str(held[0]["detail"]).lower()
    assert "m2-precious" in json.dumps(status)


def refusals(fleet: Fleet) -> list[dict[str, object]]:
    found = [json.loads(each) for each in values(fleet.target, fleet.control("events")) if each]
    return [event for event in found if event["kind"] == "topic-refused"]
