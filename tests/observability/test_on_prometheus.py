"""What dashboards and rules read, on a real Prometheus that scrapes a running link."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.architecture.test_observability import DASHBOARDS, expressions
from tests.faultkit.estate import write_estate
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import address
from tests.faultkit.traffic import traffic
from tests.faultkit.waiting import wait_until
from tests.observability.prometheus import prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from services.local.region import Region
    from tests.observability.prometheus import Prometheus

pytestmark = pytest.mark.timeout(400)

TOPIC = "watched"
SERVICES = ("sync", "mirror", "checkpoint", "heartbeat", "lag")
READY_S = 120.0
SEEN_S = 60.0


class Watched:
    """A running link east -> west under Prometheus."""

    def __init__(self, services: dict[str, ServiceProcess], server: Prometheus) -> None:
        self.services, self.server = services, server


@pytest.fixture(scope="module")
def watched(
    east: Region, west: Region, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """All services of one fleet with traffic and a group, scraped every second."""
    directory = tmp_path_factory.mktemp("watched")
    estate = write_estate(
        directory,
        source=address(east),
        target=address(west),
        fleet="watched",
        topics=[TOPIC],
        rule={"groups": ["watched-.*"]},
        services={
            "sync": {"period_s": 0.5},
            "checkpoint": {"period_s": 0.5},
            "heartbeat": {"place": "source"},  # no other fleet writes any there
        },
    )
    with ExitStack() as stack:
        stack.enter_context(traffic(address(east), [f"{TOPIC}:4"], rate=500))
        commit_group(east)
        services = {
            name: stack.enter_context(service(name, estate=estate, target="west", logs=directory))
            for name in SERVICES
        }
        for each in services.values():
            each.wait_url(READY_S)
            each.wait_ready(READY_S)
        yield Watched(services, stack.enter_context(prometheus(directory, services)))


def commit_group(region: Region) -> None:
    consumer = Consumer({"bootstrap.servers": address(region), "group.id": "watched-group"})
    try:
        wait_until(
            lambda: consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False),
            deadline_s=READY_S,
            what="the first offset of a group, while its coordinator is elected",
            ignoring=(KafkaException,),
        )
    finally:
        consumer.close()


def queries() -> list[tuple[str, str]]:
    return [(path.name, text) for path in DASHBOARDS for text in expressions(path)]


@pytest.mark.parametrize(("dashboard", "expression"), queries())
def test_a_panel_has_something_to_show(watched: Watched, dashboard: str, expression: str) -> None:
    asked = expression.replace("$link", ".*")
    assert "$" not in asked, f"{dashboard}: a variable that Grafana fills is not filled here"

    found = wait_until(
        lambda: watched.server.query(asked), deadline_s=SEEN_S, what=f"values of {asked}"
    )

    assert all(value == value for value in found) or "histogram" in asked


def test_no_rule_fails_and_none_complains_of_a_healthy_link(watched: Watched) -> None:
    rules = watched.server.wait_rules()

    assert {rule.name: rule.error for rule in rules if rule.health != "ok"} == {}
    assert {name for name, state in watched.server.alerts().items() if state == "firing"} == set()


def test_a_killed_worker_is_seen(watched: Watched) -> None:
    watched.services["mirror"].kill()

    wait_until(
        lambda: "MirrorfleetServiceDown" in watched.server.alerts(),
        deadline_s=SEEN_S,
        what="the alert that a service is down",
    )
