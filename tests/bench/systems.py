"""What is measured: the fleet as it is shipped, and Kafka's own MirrorMaker 2, each running alone.

with running(system, bench, topic, number) as copier:
    copier.processes   the first does the copying; all together do the work of MM2's one
    copier.topic       the copy
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from services.local.ports import HOST, free_ports
from services.local.region import DEFAULT_KAFKA, installed
from tests.bench.rows import is_ours
from tests.faultkit.estate import write_estate
from tests.faultkit.process import RunningProcess, ServiceProcess, service
from tests.faultkit.waiting import wait_until
from tests.judge.reading import ReadingError, partitions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.bench.sides import Side
    from tests.bench.workloads import Workload

BACKLOG_A_SLOT: Final = 4
"""Partitions. A broker works on one request of a connection at a time, so one slot keeps at most
one core of the target busy (400 MB/s); with two the target's other core works as well."""
PACED_A_SLOT: Final = 8
"""A produce request carries a batch of each partition of a slot: the more, the fewer requests, and
the fewer transactions."""
MOST_SLOTS: Final = 4
BESIDE: Final = ("sync", "heartbeat", "checkpoint")
"""MM2's one process does the work of these as well."""
HEAP: Final = "4g"
"""With 2 GB eight tuned tasks spend their time collecting garbage (17 MB/s were seen)."""
MAKES_TOPICS_S: Final = 120.0

TUNED: Final = {
    "source.consumer.max.poll.records": "20000",
    "source.consumer.fetch.max.bytes": "67108864",
    "source.consumer.max.partition.fetch.bytes": "8388608",
    "source.consumer.receive.buffer.bytes": "4194304",
    "target.producer.batch.size": "524288",
    "target.producer.linger.ms": "20",
    "target.producer.buffer.memory": "134217728",
    "target.producer.max.request.size": "8388608",
    "target.producer.send.buffer.bytes": "4194304",
}
"""What operators are told to set for throughput."""
TUNED_LATENCY: Final = {"target.producer.linger.ms": "0", "source.consumer.fetch.max.wait.ms": "10"}


class Delivery(StrEnum):
    """What a reader of committed records may see."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class System:
    """A copier with its settings; `name` is what the table calls it."""

    name: str
    delivery: Delivery
    workers: int = 1
    slots: int = 1
    """At least so many, for the fleet."""

    @property
    def is_fleet(self) -> bool:
        """Whether it is ours."""
        return is_ours(self.name)

    @property
    def tuned(self) -> bool:
        """Whether MM2's clients are set for the workload."""
        return self.name == "mm2-tuned"


FLEET: Final = System("fleet", Delivery.EXACTLY_ONCE)
PEERS: Final = tuple(
    System(name, delivery) for delivery in Delivery for name in ("mm2", "mm2-tuned")
)


def fleets(workers: Sequence[int]) -> list[System]:
    """The fleet with each number of workers, and as many slots as the most of them in each."""
    slots = max(workers, default=1)
    return [
        replace(FLEET, name=f"fleet x{n}" if n > 1 else FLEET.name, workers=n, slots=slots)
        for n in workers
    ]


@dataclass(frozen=True, slots=True)
class Copier:
    """A system that runs; the memory of the first process counts.

    `start_again`: the first process once more, after its death; the fleet's only.
    """

    processes: Sequence[RunningProcess]
    topic: str
    start_again: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """Where it runs."""

    source: Side
    target: Side
    directory: Path


@contextmanager
def running(
    system: System, bench: Bench, workload: Workload, topic: str, number: int
) -> Iterator[Copier]:
    """The system copying `topic` from its beginning; `number` makes the round's names."""
    make = _fleet if system.is_fleet else _mirror_maker
    with make(system, bench, workload, topic, number) as copier:
        yield copier


@contextmanager
def _fleet(
    system: System, bench: Bench, workload: Workload, topic: str, number: int
) -> Iterator[Copier]:
    fleet = f"bench{number}"
    logs = bench.directory / fleet
    a_slot = PACED_A_SLOT if workload.paced_s else BACKLOG_A_SLOT
    estate = write_estate(
        logs,
        source=bench.source.bootstrap,
        target=bench.target.bootstrap,
        fleet=fleet,
        topics=[topic],
        slots=max(min(workload.partitions // a_slot, MOST_SLOTS), system.slots),
        security={"east": bench.source.section, "west": bench.target.section},
    )
    copy = f"east.{topic}"
    with ExitStack() as stack:

        def one(name: str, folder: Path) -> ServiceProcess:
            made = service(name, estate=estate, target="west", logs=folder)
            return stack.enter_context(made)

        def start(worker: int) -> ServiceProcess:
            return one("mirror", logs / f"worker{worker}")

        beside = [one(name, logs) for name in BESIDE]
        _wait_for(bench.target, copy, workload.partitions)
        for process in beside:
            process.wait_ready(60)
        workers = [start(worker) for worker in range(system.workers)]
        yield Copier([*workers, *beside], copy, start_again=partial(start, 0))


@contextmanager
def _mirror_maker(
    system: System, bench: Bench, workload: Workload, topic: str, number: int
) -> Iterator[Copier]:
    name = f"mm{number}"
    logs = bench.directory / name
    logs.mkdir(parents=True)
    file = logs / "mm2.properties"
    settings = mm2_settings(system, bench, workload, topic, name)
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    java, jars = installed(DEFAULT_KAFKA)
    said = ["-Dlog4j2.level=WARN", f"-Djava.io.tmpdir={logs}"]
    command = [java, f"-Xmx{HEAP}", "-Xms256m", "-XX:+UseG1GC", *said, "-cp", f"{jars}/*"]
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    process = RunningProcess(name, [*command, main, str(file)], log=logs / "mm2.log")
    try:
        copy = f"{name}.{topic}"
        _wait_for(bench.target, copy, workload.partitions, process)
        yield Copier([process], copy)
    finally:
        process.clean_up()


def mm2_settings(
    system: System, bench: Bench, workload: Workload, topic: str, name: str
) -> dict[str, str]:
    """MM2's properties; with `name` as alias of the source each round makes a copy of its own."""
    settings = {
        "clusters": f"{name}, west",
        f"{name}->west.enabled": "true",
        f"west->{name}.enabled": "false",
        f"{name}->west.topics": topic,
        "tasks.max": str(_tasks(system, workload)),
        "west.producer.acks": "all",
    }
    for kind in ("", "checkpoints.topic.", "heartbeats.topic.", "offset-syncs.topic."):
        settings[f"{kind}replication.factor"] = "1"
    for kind in ("offset", "status", "config"):
        settings[f"{kind}.storage.replication.factor"] = "1"
    for alias, side in ((name, bench.source), ("west", bench.target)):
        settings |= {f"{alias}.{key}": value for key, value in side.java.items()}
    if system.delivery is Delivery.EXACTLY_ONCE:
        (port,) = free_ports(1)
        settings |= {
            "west.exactly.once.source.support": "enabled",
            f"{name}.consumer.isolation.level": "read_committed",
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://{HOST}:{port}",
        }
    if system.tuned:
        tuning = TUNED_LATENCY if workload.paced_s else TUNED
        settings |= {
            key.replace("source.", f"{name}.", 1).replace("target.", "west.", 1): value
            for key, value in tuning.items()
        }
        if workload.codec != "none":
            settings["west.producer.compression.type"] = workload.codec
    return settings


def _tasks(system: System, workload: Workload) -> int:
    """As many as partitions; two were measured best for latency."""
    if workload.paced_s and workload.partitions <= 8 and system.tuned:
        return 2
    return min(workload.partitions, 8)


def _wait_for(
    side: Side, topic: str, partitions: int, process: RunningProcess | None = None
) -> None:
    """Until the copy's topic is made: copying is measured, not that."""

    def made() -> bool:
        if process is not None:
            process.check_alive()
        return len(partitions_of(side.access, [topic]).get(topic, [])) == partitions

    wait_until(made, deadline_s=MAKES_TOPICS_S, what=f"the topic {topic}", ignoring=(ReadingError,))
