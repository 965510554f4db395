"""Three regions in a row, a -> b -> c, both fleets at work, and a collector: one for the folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from services.local.region import Region, RegionSpec
from tests.conftest import running
from tests.faultkit.collector import Collector, SeenSpan, collector
from tests.faultkit.markers import commit_times
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import address, data_directories
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import ONE_BATCH, Made, create, producer_to, send

READY_S: Final = 120.0
TOPIC: Final = "orders"
AT_B: Final = "a.orders"
AT_C: Final = "b.a.orders"
TOKEN: Final = "collector-token"
PARENT: Final = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RECORDS: Final = 5


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch of records: source offsets, and wall clock (ns) around its producing."""

    first: int
    began_ns: int
    acked_ns: int


class Arrivals(threading.Thread):
    """A read_committed consumer of the last region: when each record was seen (ns)."""

    def __init__(self, region: Region) -> None:
        super().__init__(name="arrivals", daemon=True)
        self.at_ns: dict[int, int] = {}
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": address(region),
                "group.id": "arrivals",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )

    def run(self) -> None:
        self._consumer.assign([TopicPartition(AT_C, 0, OFFSET_BEGINNING)])
        while not self._ended.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.at_ns[_number(message)] = time.time_ns()
        self._consumer.close()

    def end(self) -> None:
        self._ended.set()
        self.join(10)


def _number(message: Message) -> int:
    return int(message.value() or b"0")


@dataclass
class Chain:
    """What runs; `mirrors` by their target."""

    regions: dict[str, Region]
    collector: Collector
    directory: Path
    mirrors: dict[str, ServiceProcess] = field(default_factory=dict)
    arrivals: Arrivals | None = None
    produced: int = 0
    running: ExitStack = field(default_factory=ExitStack)

    @property
    def estate(self) -> Path:
        return self.directory / "estate.yaml"

    def write_estate(self) -> None:
        rule = {"name": "all"}
        estate = {
            "estate": "chain",
            "clusters": {
                name: {"bootstrap": address(region)} for name, region in self.regions.items()
            },
            "links": [
                {"from": "a", "to": "b", "slots": 2, "rules": [{**rule, "topics": [TOPIC]}]},
                {"from": "b", "to": "c", "slots": 2, "rules": [{**rule, "topics": [AT_B]}]},
            ],
            "services": {"sync": {"period_s": 0.5}},
            "telemetry": {
                "endpoint": self.collector.url,
                "traces_per_second": 50,
                "headers": {"authorization": {"env": "COLLECTOR_TOKEN"}},
            },
        }
        self.estate.write_text(yaml.safe_dump(estate))

    @contextmanager
    def service(self, name: str, target: str) -> Iterator[ServiceProcess]:
        """One service, starting."""
        logs, env = self.directory / "logs", {"COLLECTOR_TOKEN": TOKEN}
        with service(
            name, estate=self.estate, target=target, logs=logs, environment=env
        ) as process:
            yield process

    def start_mirror(self, target: str) -> ServiceProcess:
        """A worker of that fleet, ready; the one before ends first."""
        if target in self.mirrors:
            self.mirrors[target].terminate()
            assert self.mirrors[target].wait_exit(10) == 0
        made = self.mirrors[target] = self.running.enter_context(self.service("mirror", target))
        made.wait_ready(READY_S)
        return made

    def produce(self) -> Sent:
        """One batch of numbered records, with a trace context of the application's own."""
        first = self.produced
        self.produced += RECORDS
        records = [
            Made(b"%d" % number, headers=[("traceparent", PARENT), ("n", b"%d" % number)])
            for number in range(first, self.produced)
        ]
        to = producer_to(self.regions["a"], TOPIC, **ONE_BATCH)
        began = time.time_ns()
        send(to, TOPIC, records)
        return Sent(first, began, time.time_ns())

    def arrived_ns(self, sent: Sent) -> int:
        """When a consumer of the last region had the batch's first record."""
        arrivals = self.arrivals
        assert arrivals is not None
        wait_until(
            lambda: sent.first in arrivals.at_ns, deadline_s=30, what=f"record {sent.first} at c"
        )
        return arrivals.at_ns[sent.first]

    def visible_ns(self, sent: Sent) -> int:
        """When the last batch became visible at the last region, by its log: its one commit."""
        self.arrived_ns(sent)
        commits = commit_times(data_directories(self.regions["c"]), AT_C, 0)
        return commits[-1] * 1_000_000

    def trace(self, sent: Sent, hops: int = 2, deadline_s: float = 30.0) -> list[SeenSpan]:
        """The spans of the trace of a batch, hop after hop; waits until it has so many hops."""

        def look() -> list[SeenSpan] | None:
            for spans in self.collector.traces().values():
                begin = [s for s in spans if s.stage == "copy" and not s.parent_id]
                ours = any(
                    s.attributes["mirrorfleet.link"] == "a->b"
                    and s.attributes["mirrorfleet.source.first_offset"] == sent.first
                    for s in begin
                )
                if ours and len(spans) == 5 * hops:
                    return spans
            return None

        found = wait_until(look, deadline_s=deadline_s, what=f"{hops} hops of batch {sent.first}")
        return found or []


@pytest.fixture(scope="package")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """Fleet b before fleet c: the second hop looks for the control topics of the first."""
    guard = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    specs = (RegionSpec(name="a"), RegionSpec(name="b", extra=guard), RegionSpec(name="c"))
    with collector() as otlp, ExitStack() as stack:
        regions = stack.enter_context(contextmanager(running)(*specs))
        made = Chain(dict(zip("abc", regions, strict=True)), otlp, tmp_path_factory.mktemp("chain"))
        made.running = stack
        made.write_estate()
        create(made.regions["a"], TOPIC)
        for target in ("b", "c"):
            stack.enter_context(made.service("sync", target))
        for target in ("b", "c"):
            made.start_mirror(target)
        made.arrivals = arrivals = Arrivals(made.regions["c"])
        arrivals.start()
        stack.callback(arrivals.end)
        made.arrived_ns(made.produce())
        wait_until(
            lambda: _joins(made), deadline_s=READY_S, what="the second hop to hear of the first"
        )
        yield made


def _joins(chain: Chain) -> bool:
    sent = chain.produce()
    try:
        return bool(chain.trace(sent, deadline_s=5))
    except AssertionError:
        return False
