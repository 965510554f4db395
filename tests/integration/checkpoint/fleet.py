"""A whole fleet with the checkpoint service, topics that are hard to translate, and 200 groups."""

from __future__ import annotations

import random
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import yaml

from mirrorfleet.core.ids import TopicPartition
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

PARTITIONS: Final = 3
GROUPS: Final = 200
READY_S: Final = 60.0
Log = list[Seen]


@dataclass
class World:
    """One link east -> west; `logs` are what read_committed readers see, by topic."""

    name: str
    east: Region
    west: Region
    directory: Path
    services: dict[str, ServiceProcess] = field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, str]:
        """One of tiny batches, one of transactions, half of them aborted."""
        return f"{self.name}-tiny", f"{self.name}-tx"

    @property
    def estate(self) -> Path:
        return self.directory / "estate.yaml"

    def control(self, kind: str) -> str:
        return f"__mirrorfleet.{self.name}.{kind}"

    def write_estate(self) -> None:
        rule = {"name": "all", "topics": [f"{self.name}-.*"], "groups": [f"{self.name}-g.*"]}
        cluster = {"bootstrap": address(self.west), "fleet": self.name}
        estate = {
            "estate": self.name,
            "clusters": {"east": {"bootstrap": address(self.east)}, "west": cluster},
            "links": [{"from": "east", "to": "west", "slots": 2, "rules": [rule]}],
            "services": {
                "sync": {"period_s": 0.5},
                "checkpoint": {
                    "period_s": 0.5,
                    "pack_at_least": 20,
                    "pack_period_s": 0.5,
                    "prune_period_s": 1,
                },
            },
        }
        self.estate.write_text(yaml.safe_dump(estate))

    @contextmanager
    def running(self, *names: str) -> Iterator[None]:
        """These services, each ready."""
        logs = self.directory / "logs"
        with ExitStack() as stack:
            for name in names:
                made = service(name, estate=self.estate, target="west", logs=logs)
                self.services[name] = stack.enter_context(made)
            for name in names:
                self.services[name].wait_ready(READY_S)
            yield

    def source(self, topic: str) -> list[Log]:
        return read(self.east, topic, PARTITIONS)

    def copy(self, topic: str) -> list[Log]:
        return read(self.west, f"east.{topic}", PARTITIONS)

    def wait_copied(self) -> None:
        for topic in self.topics:
            wanted = [[one.value for one in log] for log in self.source(topic)]
            wait_until(
                lambda: [[one.value for one in log] for log in self.copy(topic)] == wanted,  # noqa: B023 - called before the next turn
                deadline_s=60,
                what=f"{topic} to be copied",
            )


def write_records(world: World, dice: random.Random, rounds: int) -> None:
    """Records that tell their number; the two topics get the same amount of trouble."""
    tiny, tx = world.topics
    one, other = (transactional(world.east, f"{world.name}-{n}-{dice.random()}") for n in "ab")
    for number in range(rounds):
        value = b"%d-%d" % (number, dice.getrandbits(40))
        records = [
            Made(b"%b-%d" % (value, n), partition=dice.randrange(PARTITIONS))
            for n in range(dice.randrange(1, 12))
        ]
        put(world.east, tiny, records, **(EACH_ALONE if number % 2 else {}))
        end = abort if dice.random() < 0.4 else commit
        end(dice.choice((one, other)), tx, records)


def make_topics(world: World) -> None:
    for topic in world.topics:
        create(world.east, topic, PARTITIONS)


def random_places(
    world: World, dice: random.Random
) -> dict[str, dict[TopicPartition, GroupOffset]]:
    """Offsets of 200 groups: on records, markers, aborted ones, the begin and the end."""
    ends = {topic: [log[-1].offset for log in world.source(topic)] for topic in world.topics}
    return {
        f"{world.name}-g{number}": {
            TopicPartition(topic, partition): GroupOffset(dice.randrange(end + 2), f"m{number}")
            for topic in world.topics
            for partition, end in enumerate(ends[topic])
            if dice.random() < 0.7
        }
        for number in range(GROUPS)
    }


def next_value(log: Log, offset: int) -> bytes | None:
    """What a reader of `log` is handed first from `offset` on; None at the end."""
    return next((one.value for one in log if one.offset >= offset), None)
