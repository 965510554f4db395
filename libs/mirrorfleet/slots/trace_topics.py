"""Sampled batches through control topics: written for the next hop, read from the hop before.

    our target's    __mirrorfleet.<our fleet>.progress          written, key by slot
    our source's    __mirrorfleet.<the source's fleet>.progress  read from its end on

Both beside the copying: neither may hold it up, and what fails is counted and tried again later.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.sampling import SampleBudget
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, MirrorfleetError
from mirrorfleet.core.ids import FleetName, Link, TopicPartition
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.kafka.control_tailing import PartitionTail
from mirrorfleet.kafka.offsets import LATEST, list_offsets
from mirrorfleet.records import traces as codec
from mirrorfleet.records.packing import Skipped
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime import metric_names as names
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots.tracing import Announcer, LinkTraces

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.runtime.metrics import Metrics
    from mirrorfleet.runtime.telemetry import Telemetry

BETWEEN_WRITES_S: Final = 0.1
WRITE_S: Final = 5.0
POLL_S: Final = 30.0
LOOK_AGAIN_S: Final = 60.0
"""For new partitions of the topic, and after it could not be read."""
_REFUSED: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not-allowed",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "no-fleet",
}

_log = logger(__name__)


class Tracing:
    """The traces of one worker; with telemetry off it does nothing."""

    def __init__(
        self, telemetry: Telemetry, metrics: Metrics, clock: Clock, *, fleet: FleetName
    ) -> None:
        self._telemetry = telemetry
        self._metrics = metrics
        self._clock = clock
        self._fleet = fleet
        self._budget = SampleBudget(telemetry.traces_per_second)
        self._announcer = Announcer()

    def link(self, link: Link) -> LinkTraces | None:
        """The traces of a link; None when they are off."""
        if not self._telemetry.on:
            return None
        return LinkTraces(
            link,
            self._telemetry,
            self._metrics,
            self._clock,
            budget=self._budget,
            announce=self._announcer.add,
        )

    async def announce(self, target: Cluster) -> None:
        """Write what was traced, soon after it was; until cancelled."""
        if not self._telemetry.on:
            return
        writer = ControlWriter(target, deadline_s=WRITE_S)
        news = asyncio.Event()
        self._announcer.heard = news.set
        topic = control_topic(self._fleet, ControlKind.PROGRESS)
        while True:
            await news.wait()
            news.clear()
            for slot, batches in self._announcer.take().items():
                outcome = "written"
                try:
                    record = codec.encode(slot, batches)
                    await writer.write(TopicPartition(topic, slot), [record], self._clock.now_ms())
                except MirrorfleetError as error:
                    outcome = "failed"
                    _log.debug("traces not announced", extra=fields(slot=slot, error=str(error)))
                self._metrics.counter(names.ANNOUNCED, outcome).add()
            await asyncio.sleep(BETWEEN_WRITES_S)

    async def follow(self, traces: LinkTraces | None, link: Link, source: Upstream) -> None:
        """Read what the hop before traced; until cancelled, whatever comes."""
        told = ""
        while traces is not None:
            try:
                await source.read(traces)
            except MirrorfleetError as error:
                cause = _cause(error)
                self._metrics.counter(names.UPSTREAM, str(link), cause).add()
                if cause != told:
                    told = cause
                    _log.info(
                        "traces of the hop before are not joined",
                        extra=fields(link=str(link), topic=source.topic, error=str(error)),
                    )
            await asyncio.sleep(LOOK_AGAIN_S)


class Upstream:
    """The control topic in which a source's own fleet says what it traced."""

    def __init__(self, cluster: Cluster, fleet: FleetName) -> None:
        self._cluster = cluster
        self.topic = control_topic(fleet, ControlKind.PROGRESS)

    async def read(self, traces: LinkTraces) -> None:
        """Hand on what is announced from now on.

        Raises: BrokerError (no such topic, not allowed), DeadlineError, AuthenticationError,
        CorruptBatchError.
        """
        tail = PartitionTail(self._cluster, self.topic)
        clock = asyncio.get_running_loop().time
        looked_at = float("-inf")
        try:
            while True:
                if clock() - looked_at > LOOK_AGAIN_S:
                    await self._start(tail)
                    looked_at = clock()
                for record in await tail.poll(deadline_s=POLL_S):
                    if codec.is_ours(record.key):
                        found = codec.decode(record.value)
                        traces.announced(() if isinstance(found, Skipped) else found)
        finally:
            tail.close()

    async def _start(self, tail: PartitionTail) -> None:
        """Begin with the end of each partition that is not read yet."""
        topic = await self._cluster.topic(self.topic, refresh=True)
        new = [
            TopicPartition(self.topic, p) for p in topic.partitions if p not in tail.next_offsets
        ]
        ends = await list_offsets(self._cluster, dict.fromkeys(new, LATEST)) if new else {}
        for at, end in ends.items():
            if isinstance(end, BrokerError):
                raise end
            tail.start(at.partition, end.offset)


def _cause(error: MirrorfleetError) -> str:
    """A word from a fixed list."""
    if isinstance(error, BrokerError):
        return _REFUSED.get(error.code, "unreachable")
    return "unreachable"
