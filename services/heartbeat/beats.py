"""The heartbeats of some links on one cluster: the topic made where it is missing, then written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import Link, TopicPartition
from mirrorfleet.kafka.admin import NewTopic, create_topics
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlWriter
from mirrorfleet.records.heartbeat import TOPIC, Heartbeat, encode
from mirrorfleet.records.topics import heartbeat_topic, replicas_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorfleet.config.cluster_settings import ClusterSettings
    from mirrorfleet.core.ports import Clock

AT: Final = TopicPartition(TOPIC, 0)
# MM2 takes it for granted, then, that somebody has made the topic
_MAY_BE_THERE: Final = frozenset(
    {ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.TOPIC_AUTHORIZATION_FAILED}
)


class Beats:
    """One cluster; one heartbeat of each link at a time."""

    def __init__(
        self, settings: ClusterSettings, links: Sequence[Link], write_s: float, clock: Clock
    ) -> None:
        self.links = tuple(links)
        self.written = 0
        """Heartbeats of each link so far."""
        self.last: float | None = None
        """Monotonic time of the last one; None before any."""
        self.trouble = ""
        self._cluster = Cluster(settings)
        self._writer = ControlWriter(self._cluster, deadline_s=write_s)
        self._write_s, self._clock = write_s, clock
        self._prepared = False

    @property
    def name(self) -> str:
        """Alias of the cluster."""
        return self._cluster.name

    async def beat(self) -> None:
        """Write one heartbeat of each link, all of one time.

        Raises: DeadlineError, ConnectionLostError, BrokerError, AuthenticationError; some may be
        written then. The next call connects and makes the topic again.
        """
        try:
            async with asyncio.timeout(self._write_s):
                await self._write()
        except BaseException as error:
            self._prepared = False
            self._writer.close()
            if isinstance(error, TimeoutError):
                text = f"{self.name}: no heartbeat was acknowledged within {self._write_s:g} s."
                raise DeadlineError(text) from None
            raise
        self.written += 1
        self.last = self._clock.monotonic()

    async def close(self) -> None:
        """Close the connections."""
        self._writer.close()
        await self._cluster.close()

    async def _write(self) -> None:
        if not self._prepared:
            await self._prepare()
        now_ms = self._clock.now_ms()
        beats = [encode(Heartbeat(link.source, link.target, now_ms)) for link in self.links]
        await self._writer.write(AT, beats, now_ms)

    async def _prepare(self) -> None:
        """As MM2: one partition, compacted, nothing else; a topic that is there stays as it is."""
        found = (await self._cluster.metadata((TOPIC,))).topics.get(TOPIC)
        if found is None or found.error is not ErrorCode.NONE:
            await self._create()
        self._prepared = True

    async def _create(self) -> None:
        members = (await self._cluster.metadata(None)).members  # those that are down count, too
        wanted = NewTopic.of(heartbeat_topic(replication_factor=replicas_on(members)))
        error = (await create_topics(self._cluster, [wanted]))[TOPIC]
        if error is not None and error.code not in _MAY_BE_THERE:
            raise error
