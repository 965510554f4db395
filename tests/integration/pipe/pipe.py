"""Three regions in a row, a -> b -> c, with the whole fleet of b and the whole fleet of c."""

from __future__ import annotations

import random
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import yaml

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.groups import commit_offsets
from mirrorfleet.offsets.homes import GroupOffset
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import (
    EACH_ALONE,
    Made,
    Seen,
    abort,
    commit,
    create,
    put,
    read,
    transactional,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region

NAMES: Final = ("a", "b", "c")
FLEETS: Final = ("b", "c")
SERVICES: Final = ("sync", "mirror", "checkpoint", "heartbeat")
PARTITIONS: Final = 2
GROUPS: Final = 10
ORDERS: Final = "orders"
READY_S: Final = 90.0
Places = dict[str, dict[TopicPartition, GroupOffset]]


@dataclass
class Pipe:
    """What runs, and what was put into it."""

    regions: dict[str, Region]
    directory: Path
    services: dict[tuple[str, str], ServiceProcess] = field(default_factory=dict)
    places: dict[str, Places] = field(default_factory=dict)
    """Offsets of groups, by the region that they were committed on."""

    @property
    def estate(self) -> Path:
        return self.directory / "estate.yaml"

    def write_estate(self) -> None:
        """No pattern names heartbeats; they start at the source, so that `a` has some, too."""
        links = [
            {
                "from": source,
                "to": target,
                "slots": 2,
                "rules": [{"name": "all", "topics": [r"(a\.)?orders"], "groups": ["g.*"]}],
            }
            for source, target in (("a", "b"), ("b", "c"))
        ]
        estate = {
            "estate": "pipe",
            "clusters": {
                name: {"bootstrap": address(region)} for name, region in self.regions.items()
            },
            "links": links,
            "services": {
                "sync": {"period_s": 0.5},
                "checkpoint": {"period_s": 0.5},
                "heartbeat": {"place": "source"},
            },
        }
        self.estate.write_text(yaml.safe_dump(estate))

    @contextmanager
    def running(self) -> Iterator[None]:
        """All services of both fleets, each ready."""
        with ExitStack() as stack:
            for fleet in FLEETS:
                for name in SERVICES:
                    logs = self.directory / "logs"
                    made = service(name, estate=self.estate, target=fleet, logs=logs)
                    self.services[fleet, name] = stack.enter_context(made)
            for process in self.services.values():
                process.wait_url(READY_S)  # they all start at once
                process.wait_ready(READY_S)
            yield

    def read(self, region: str, topic: str, partitions: int = PARTITIONS) -> list[list[Seen]]:
        return read(self.regions[region], topic, partitions)

    def fill(self, dice: random.Random) -> None:
        """Tiny batches and transactions, some of them aborted."""
        a = self.regions["a"]
        create(a, ORDERS, PARTITIONS)
        producer = transactional(a, "pipe")
        for number in range(20):
            records = [
                Made(b"%d-%d" % (number, n), partition=dice.randrange(PARTITIONS))
                for n in range(dice.randrange(1, 9))
            ]
            put(a, ORDERS, records, **EACH_ALONE)
            (abort if number % 3 == 0 else commit)(producer, ORDERS, records)

    def wait_copied(self) -> None:
        """Until c has what a has."""
        wanted = [[one.value for one in log] for log in self.read("a", ORDERS)]

        def arrived() -> bool:
            there = self.read("c", "b.a.orders")
            return [[one.value for one in log] for log in there] == wanted

        wait_until(arrived, deadline_s=60, what="orders to be at the end of the pipe")

    async def place_groups(self, dice: random.Random) -> None:
        """Groups at random offsets of a's topic, and others at those of b's copy."""
        for region, topic in (("a", ORDERS), ("b", "a.orders")):
            ends = [log[-1].offset for log in self.read(region, topic)]
            self.places[region] = {
                f"g-{region}-{number}": {
                    TopicPartition(topic, n): GroupOffset(dice.randrange(end + 2), f"m{number}")
                    for n, end in enumerate(ends)
                }
                for number in range(GROUPS)
            }
            async with Cluster(self.regions[region].settings()) as cluster:
                answers = await commit_offsets(cluster, self.places[region])
            assert set(answers.values()) == {None}

    def translated(self, fleet: str, at: TopicPartition, offset: int) -> int:
        """What the checkpoint service of a fleet says about an offset of its source."""
        source = NAMES[NAMES.index(fleet) - 1]
        answer = self.services[fleet, "checkpoint"].get_patiently(
            f"/translate?source={source}&topic={at.topic}&partition={at.partition}&offset={offset}"
        )
        assert answer.status_code == 200, answer.text
        return int(answer.json()["other_offset"])
