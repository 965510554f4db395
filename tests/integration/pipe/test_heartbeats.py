"""MM2's heartbeats once a second, copied down the pipe; red while the target is away."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its public names, not in its __all__
    AdminClient,
    ConfigResource,
    ResourceType,
)

from services.local.region import Region, RegionSpec
from tests.conftest import Regions
from tests.faultkit.estate import write_estate
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import Seen, create, delete, seen
from tests.integration.pipe.pipe import Pipe

VALUE = struct.Struct(">hq")


def beats(region: Region, topic: str, at_least: int, key: bytes) -> list[Seen]:
    """The heartbeats of one link, when there are enough of them."""

    def look() -> list[Seen] | None:
        found = [one for one in seen(region, topic) if one.key == key]
        return found if len(found) >= at_least else None

    return wait_until(look, deadline_s=60, what=f"{at_least} heartbeats in {topic}") or []


@pytest.fixture
def west(regions: Regions) -> Region:
    (region,) = regions(RegionSpec(name="west"))
    return region


def reasons(process: ServiceProcess) -> dict[str, str]:
    answer = process.get("/readyz")
    found: dict[str, str] = answer.json()["reasons"]
    assert answer.status_code == (503 if found else 200)
    return found


@pytest.mark.timeout(180)
def test_heartbeats_go_down_the_pipe_though_no_pattern_names_them(pipe: Pipe) -> None:
    a, b, c = (pipe.regions[name] for name in "abc")
    made = beats(a, "heartbeats", 4, b"\0\1a\0\1b")
    for one in made:
        assert one.value == VALUE.pack(0, one.timestamp)
    gaps = [later.timestamp - one.timestamp for one, later in pairwise(made)]
    assert 900 < median(gaps) < 1_500, gaps
    assert sum(gap >= 1_500 for gap in gaps) <= 1, gaps  # while a broker stands still

    for region, topic in ((b, "a.heartbeats"), (c, "b.a.heartbeats")):
        copied = beats(region, topic, 4, b"\0\1a\0\1b")
        assert [one[1:] for one in copied[:4]] == [one[1:] for one in made[:4]]
    beats(c, "b.heartbeats", 1, b"\0\1b\0\1c")


@pytest.mark.timeout(180)
def test_a_target_that_takes_no_heartbeats_is_told_until_it_does(
    west: Region, tmp_path: Path
) -> None:
    estate = write_estate(
        tmp_path,
        source="127.0.0.1:1",
        target=address(west),
        fleet="beats",
        topics=["x"],
        services={"heartbeat": {"write_s": 2}},
    )
    create(west, "__mirrorfleet.beats.slots", 4)  # of sync, which does not run here
    with service("heartbeat", estate=estate, target="west", logs=tmp_path) as process:
        process.wait_ready(30)
        assert made_as(west) == (1, "compact")
        before = beats(west, "heartbeats", 1, b"\0\4east\0\4west")

        west.broker(1).pause()
        said = wait_until(
            lambda: reasons(process).get("heartbeats on west"),
            deadline_s=10,
            what="heartbeat to be red",
        )
        assert said == "west: no heartbeat was acknowledged within 2 s."
        assert process.get("/status").json()["links"][0]["trouble"] == said

        west.broker(1).resume()
        process.wait_ready(30)
        beats(west, "heartbeats", len(before) + 1, b"\0\4east\0\4west")
        metrics = process.get("/metrics").text
        assert 'mirrorfleet_seconds_since_heartbeat{link="east->west"} ' in metrics
        assert 'mirrorfleet_heartbeats_total{link="east->west"} ' in metrics

        delete(west, "heartbeats")
        beats(west, "heartbeats", 2, b"\0\4east\0\4west")
        process.wait_ready(30)


def made_as(region: Region) -> tuple[int, str]:
    """Partitions and cleanup of the heartbeats topic."""
    admin = AdminClient({"bootstrap.servers": address(region)})
    topic = admin.list_topics("heartbeats", 10).topics["heartbeats"]
    resource = ConfigResource(ResourceType.TOPIC, "heartbeats")
    configs = admin.describe_configs([resource])[resource].result(10)
    return len(topic.partitions), configs["cleanup.policy"].value
