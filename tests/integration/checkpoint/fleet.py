"""Two whole fleets, one a way, topics that are hard to translate, and 200 groups."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

import yaml

from mirrorfleet.core.ids import ClusterAlias, Link, TopicPartition
from mirrorfleet.offsets.homes import GroupOffset
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import (
    EACH_ALONE,
    ONE_BATCH,
    Made,
    Seen,
    abort,
    alter_broker,
    alter_topic,
    commit,
    create,
    put,
    read,
    transactional,
)
from tests.integration.mirror.stored import stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region

PARTITIONS: Final = 3
GROUPS: Final = 200
READY_S: Final = 90.0
PACK_AT_LEAST: Final = 2
"""Offsets of segments: a commit writes two, and a whole backlog may be one commit."""
Log = list[Seen]
Places = dict[str, dict[TopicPartition, GroupOffset]]

_CLEANED: Final[dict[str, str | int]] = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "min_compaction_lag_ms": 0,
    "segment_ms": 1_000,
}
_CLEANER: Final = "log.cleaner.backoff.ms"


@dataclass
class Way:
    """One link, and the fleet of the same name; logs are what read_committed readers see."""

    name: str
    source: Region
    target: Region
    services: dict[str, ServiceProcess] = field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, str, str]:
        """Tiny batches; transactions, half of them aborted; holes where records were removed."""
        return f"{self.name}-tiny", f"{self.name}-tx", f"{self.name}-holes"

    @property
    def link(self) -> Link:
        return Link(ClusterAlias(self.source.name), ClusterAlias(self.target.name))

    def control(self, kind: str) -> str:
        return f"__mirrorfleet.{self.name}.{kind}"

    def there(self, topic: str) -> str:
        """The name of the copy."""
        return f"{self.source.name}.{topic}"

    def log(self, topic: str) -> list[Log]:
        return read(self.source, topic, PARTITIONS)

    def copy(self, topic: str) -> list[Log]:
        return read(self.target, self.there(topic), PARTITIONS)

    def wait_copied(self) -> None:
        for topic in self.topics:
            wanted = [[one.value for one in log] for log in self.log(topic)]
            wait_until(
                lambda: [[one.value for one in log] for log in self.copy(topic)] == wanted,  # noqa: B023 - called before the next turn
                deadline_s=60,
                what=f"{topic} to be copied",
            )


@dataclass
class World:
    """Links both ways between two regions, for the same groups."""

    name: str
    ways: tuple[Way, Way]
    directory: Path

    @classmethod
    def between(cls, name: str, east: Region, west: Region, directory: Path) -> World:
        return cls(name, (Way(name, east, west), Way(f"{name}-back", west, east)), directory)

    @property
    def estate(self) -> Path:
        return self.directory / "estate.yaml"

    def write_estate(self) -> None:
        clusters = {
            way.target.name: {"bootstrap": address(way.target), "fleet": way.name}
            for way in self.ways
        }
        links = [
            {
                "from": way.source.name,
                "to": way.target.name,
                "slots": 2,
                "rules": [
                    {"name": "all", "topics": list(way.topics), "groups": [f"{self.name}-g.*"]}
                ],
            }
            for way in self.ways
        ]
        services = {
            "sync": {"period_s": 0.5},
            "checkpoint": {
                "period_s": 0.5,
                "pack_at_least": PACK_AT_LEAST,
                "pack_period_s": 0.5,
                "prune_period_s": 1,
            },
        }
        estate = {"estate": self.name, "clusters": clusters, "links": links, "services": services}
        self.estate.write_text(yaml.safe_dump(estate))

    @contextmanager
    def running(self, *names: str) -> Iterator[None]:
        """These services of both fleets, each ready."""
        logs = self.directory / "logs"
        started: list[ServiceProcess] = []
        with ExitStack() as stack:
            for way in self.ways:
                for name in names:
                    made = service(name, estate=self.estate, target=way.target.name, logs=logs)
                    way.services[name] = stack.enter_context(made)
                    started.append(way.services[name])
            for process in started:
                process.wait_url(READY_S)  # they all start at once
                process.wait_ready(READY_S)
            yield


def write_records(way: Way, dice: random.Random, rounds: int) -> None:
    """Records that tell their number; all topics get some of each trouble."""
    tiny, tx, holes = way.topics
    one, other = (transactional(way.source, f"{way.name}-{n}-{dice.random()}") for n in "ab")
    for number in range(rounds):
        value = b"%d-%d" % (number, dice.getrandbits(40))
        records = [
            Made(b"%b-%d" % (value, n), partition=dice.randrange(PARTITIONS))
            for n in range(dice.randrange(1, 12))
        ]
        put(way.source, tiny, records, **(EACH_ALONE if number % 2 else {}))
        end = abort if dice.random() < 0.4 else commit
        end(dice.choice((one, other)), tx, records)
        if number % 4 == 0:
            keyed = [one._replace(key=b"k%d" % dice.randrange(30)) for one in records]
            put(way.source, holes, keyed)


def make_topics(way: Way, dice: random.Random) -> None:
    """The topics; the cleaner has made the holes before anybody copies."""
    tiny, tx, holes = way.topics
    create(way.source, tiny, PARTITIONS)
    create(way.source, tx, PARTITIONS)
    create(way.source, holes, PARTITIONS, **_CLEANED)
    records = [Made(b"%d" % n, b"k%d" % dice.randrange(20), n % PARTITIONS) for n in range(150)]
    put(way.source, holes, records, **ONE_BATCH)
    alter_broker(way.source, {_CLEANER: "50"})  # 15 s otherwise
    try:
        _clean(way)
    finally:
        alter_broker(way.source, {_CLEANER: None})


def _clean(way: Way) -> None:
    """Roll segments, by records further and further ahead, until each partition has holes."""
    holes = way.topics[2]
    now = int(time.time() * 1000)
    ahead = count(1)

    def is_clean() -> bool:
        later = now + 5_000 * next(ahead)
        rolls = [Made(b"%d-%d" % (later, n), b"roll", n, later) for n in range(PARTITIONS)]
        put(way.source, holes, rolls)
        return all(
            any(batch.missing and batch.records for batch in stored(way.source, holes, number))
            for number in range(PARTITIONS)
        )

    wait_until(is_clean, deadline_s=30, what="holes", ignoring=(FileNotFoundError,))
    alter_topic(way.source, holes, min_compaction_lag_ms=2**62)  # nothing goes once it is copied


def random_places(world: World, way: Way, dice: random.Random) -> Places:
    """Offsets of 200 groups: on records, holes, markers, aborted ones, the begin and the end."""
    ends = {topic: [log[-1].offset for log in way.log(topic)] for topic in way.topics}
    return {
        f"{world.name}-g{number}": {
            TopicPartition(topic, partition): GroupOffset(dice.randrange(end + 2), f"m{number}")
            for topic in way.topics
            for partition, end in enumerate(ends[topic])
            if dice.random() < 0.7
        }
        for number in range(GROUPS)
    }


def next_value(log: Log, offset: int) -> bytes | None:
    """What a reader of `log` is handed first from `offset` on; None at the end."""
    return next((one.value for one in log if one.offset >= offset), None)
