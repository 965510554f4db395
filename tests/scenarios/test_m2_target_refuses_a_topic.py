"""M2: the target cannot create a topic or partition (quota, storage, too few brokers).

MirrorMaker 2: a line in a log. Here: that topic is held with the reason, others flow, it is tried
again, and flows as soon as the target takes it.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import create, delete, numbered, put, values
from tests.judge.verdict import Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region

IN_THE_WAY: Final = "east_m2-precious"
"""A topic of the target whose metrics would be named as the copy's are: brokers refuse the copy."""
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
    east: Region, west: Region, tmp_path: Path
) -> None:
    fleet = Fleet("m2", east, west, tmp_path, topics=["other:1", "precious:1"])
    create(west, IN_THE_WAY)
    for topic in ("m2-other", "m2-precious"):
        create(east, topic)
        put(east, topic, numbered(0, 100))
    with fleet.sync() as sync, fleet.mirror():
        wait_flowed(fleet, "m2-other", 100)
        held = wait_until(lambda: refusals(fleet), deadline_s=20, what="the event of a refusal")
        status = sync.status()
        delete(west, IN_THE_WAY)
        began = time.monotonic()
        wait_flowed(fleet, "m2-precious", 100)
        print(f"it flowed {time.monotonic() - began:.1f} s after the target could take it")
        report = fleet.judged(records=200)

    assert report.verdict is Verdict.PASS
    assert [(event["topic"], event["kind"]) for event in held] == [("m2-precious", "topic-refused")]
    assert "collides" in str(held[0]["detail"])
    assert "m2-precious" in json.dumps(status)


def refusals(fleet: Fleet) -> list[dict[str, object]]:
    found = [json.loads(each) for each in values(fleet.target, fleet.control("events")) if each]
    return [event for event in found if event["kind"] == "topic-refused"]
