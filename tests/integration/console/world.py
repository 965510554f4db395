"""Two regions that copy into each other, with traffic, groups, one fault, and the console."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import yaml
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient

from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import ANSWER_S, create, numbered, producer, put, read, send

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region

READY_S: Final = 60.0
TOKEN: Final = "a token that nobody guesses"
EVIL: Final = "<script>document.title='taken'</script>"
"""Kafka takes any text as the name of a group."""
PLACED: Final = {"billing": 40, EVIL: 7, "späth & co/?#%": 0}
"""Groups with the offset that they have in `shop-orders-0` on east."""
TOPICS: Final = {"shop-orders": 6, "shop-payments": 3, "shop-returns": 1}
LOST: Final = "shop-returns"
FLEETS: Final = ("east", "west")


@dataclass
class World:
    """Fleets `shop-east` and `shop-west`."""

    east: Region
    west: Region
    directory: Path
    services: dict[str, ServiceProcess] = field(default_factory=dict)
    console: ServiceProcess = field(init=False)

    @property
    def url(self) -> str:
        return self.console.wait_url()

    def write_estate(self) -> Path:
        rule = {"name": "shop", "topics": ["shop-.*"], "groups": [".*"]}
        back = {"name": "home", "topics": ["home-.*"], "groups": [".*"]}
        estate = {
            "estate": "shop",
            "clusters": {
                "east": {"bootstrap": address(self.east), "fleet": "shop-east"},
                "west": {"bootstrap": address(self.west), "fleet": "shop-west"},
            },
            "links": [
                {"from": "east", "to": "west", "slots": 2, "rules": [rule]},
                {"from": "west", "to": "east", "slots": 2, "rules": [back]},
            ],
            "services": {
                "sync": {"period_s": 0.5},
                "checkpoint": {"period_s": 0.5},
                "console": {
                    "token": {"env": "CONSOLE_TOKEN"},
                    "refresh_s": 0.2,
                    "ping_s": 0.5,
                    "request_s": 2,
                },
            },
        }
        path = self.directory / "estate.yaml"
        path.write_text(yaml.safe_dump(estate))
        return path

    @contextmanager
    def running(self, *names: str) -> Iterator[None]:
        """Services named like `mirror-west`, each ready."""
        estate, logs = self.write_estate(), self.directory / "logs"
        with ExitStack() as stack:
            for name in names:
                program, _, target = name.partition("-")
                made = service(
                    program,
                    estate=estate,
                    target=target,
                    logs=logs,
                    environment={"CONSOLE_TOKEN": TOKEN},
                )
                self.services[name] = stack.enter_context(made)
            for name in names:
                self.services[name].wait_url(READY_S)
                self.services[name].wait_ready(READY_S)
            yield

    def wait_copied(self, topic: str) -> None:
        wanted = [len(log) for log in read(self.east, topic, TOPICS[topic])]
        wait_until(
            lambda: [len(log) for log in read(self.west, f"east.{topic}", TOPICS[topic])] == wanted,
            deadline_s=READY_S,
            what=f"{topic} to be copied",
        )


def make_topics(world: World) -> None:
    for topic, partitions in TOPICS.items():
        create(world.east, topic, partitions)
        for number in range(partitions):
            put(world.east, topic, numbered(0, 100, partition=number))
    create(world.west, "home-carts", 2)
    put(world.west, "home-carts", numbered(0, 50))


def lose_records(world: World) -> None:
    """While the mirror of west is gone: retention takes what it has not copied."""
    put(world.east, LOST, numbered(100, 150))
    admin = AdminClient({"bootstrap.servers": address(world.east)})
    at = At(LOST, 0, 120)
    admin.delete_records([at], operation_timeout=ANSWER_S)[at].result(ANSWER_S)


def place_groups(world: World) -> None:
    admin = AdminClient({"bootstrap.servers": address(world.east)})
    for group, offset in PLACED.items():
        wanted = ConsumerGroupTopicPartitions(group, [At("shop-orders", 0, offset)])
        admin.alter_consumer_group_offsets([wanted])[group].result(ANSWER_S)


@contextmanager
def traffic(world: World) -> Iterator[None]:
    """A few hundred records a second until the end."""
    stop = threading.Event()

    def work() -> None:
        maker = producer(world.east, linger_ms=20)
        back = producer(world.west, linger_ms=20)
        number = 1000
        while not stop.wait(0.1):
            for partition in range(TOPICS["shop-orders"]):
                send(
                    maker,
                    "shop-orders",
                    numbered(number, number + 10, size=400, partition=partition),
                )
            send(maker, "shop-payments", numbered(number, number + 5, partition=number % 3))
            send(back, "home-carts", numbered(number, number + 3, partition=number % 2))
            number += 10

    thread = threading.Thread(target=work, name="traffic")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def member(world: World, group: str) -> Iterator[None]:
    """A consumer that is at work on east."""
    consumer = Consumer(
        {
            "bootstrap.servers": address(world.east),
            "group.id": group,
            "client.id": "till-7",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["shop-payments"])
    try:
        wait_until(
            lambda: consumer.poll(0.5) is not None, deadline_s=READY_S, what=f"{group} to read"
        )
        consumer.commit(asynchronous=False)
        yield
    finally:
        consumer.close()


def time_lag(world: World) -> object:
    """Of east -> west, as the console has it; None when it is not known."""
    links = world.console.get("/api/estate").json()["links"]
    return links[0]["summary"]["time_lag_ms"]


@contextmanager
def living(east: Region, west: Region, directory: Path) -> Iterator[World]:
    """All of it; `shop-returns-0` has lost records and stands still."""
    world = World(east, west, directory)
    make_topics(world)
    with world.running("sync-east", "sync-west", "mirror-east"):
        with world.running("mirror-west"):
            for topic in TOPICS:
                world.wait_copied(topic)
        lose_records(world)
        place_groups(world)
        with (
            world.running("mirror-west", "checkpoint-west", "lag-west", "console-west"),
            traffic(world),
            member(world, "tills"),
        ):
            world.console = world.services["console-west"]
            wait_until(
                lambda: time_lag(world) is not None, deadline_s=READY_S, what="samples of lag"
            )
            yield world
