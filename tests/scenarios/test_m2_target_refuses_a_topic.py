"""M2: the target cannot create a topic or partition (quota, storage, too few brokers).

MirrorMaker 2: a line in a log. Here: that topic is held with the reason, others flow, it is tried
again, and flows as soon as the target takes it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import create, numbered, put, values
from tests.judge.verdict import Verdict
from tests.versions.kit import Fleet

if TYPE_CHECKING:
    from pathlib import Path

    from services.local.region import Region


@pytest.mark.timeout(300)
def test_m2_that_topic_waits_with_a_reason_and_others_flow(
    east: Region, west: Region, tmp_path: Path
) -> None:
    rules: list[dict[str, object]] = [
        {"name": "safe", "topics": ["m2-precious"], "replication_factor": 3},
        {"name": "rest", "topics": ["m2-.*"], "exclude": ["m2-precious"]},
    ]
    fleet = Fleet("m2", east, west, tmp_path, topics=["other:2"], rules=rules)
    create(east, "m2-precious", 2)
    create(east, "m2-other", 2)
    put(east, "m2-other", numbered(0, 100))
    with fleet.sync() as sync, fleet.mirror():
        report = fleet.judged(records=100)
        held = wait_until(lambda: refusals(fleet), deadline_s=20, what="the event of the refusal")
        status = sync.status()

    assert report.verdict is Verdict.PASS
    assert [(event["topic"], event["kind"]) for event in held] == [("m2-precious", "topic-refused")]
    assert "replication" in str(held[0]["detail"]).lower()
    assert "m2-precious" in json.dumps(status)


def refusals(fleet: Fleet) -> list[dict[str, object]]:
    found = [json.loads(each) for each in values(fleet.target, fleet.control("events")) if each]
    return [event for event in found if event["kind"] == "topic-refused"]
