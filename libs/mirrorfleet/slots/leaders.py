"""Who leads what on one cluster: a table of metadata, renewed when somebody says that it is old."""

from __future__ import annotations

import asyncio
import math
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.kafka.leaders import Newest
from mirrorfleet.records.topics import least_in_sync
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from mirrorfleet.core.ids import TopicId
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.metadata import PartitionMeta

RENEW_S: Final = 10.0
"""Renewed this often without a reason, so that a moved leader is found before it is missed."""
SOON_S: Final = 1.0
"""While a partition has no leader, or somebody has just said that the table is wrong."""
REST: Final = 20
"""And so many times what a look takes: ten thousand partitions keep a worker busy with it."""
TROUBLE_S: Final = 15.0
"""A dead broker is replaced when its session ends (broker.session.timeout.ms, 9 s)."""
LEAST_S: Final = 0.1
"""Between two renewals, however many ask."""
ASKED_REST: Final = 4
"""And so many times what a look takes, up to `SOON_S`: who asks all the time gets a fifth of a
worker's, and a broker that let the look wait keeps nobody from the next one."""

UNWANTED_S: Final = 60.0
"""What nobody needs is known for so long: a transaction may have it, the ledger ask for it."""

_log = logger(__name__)


class LeaderAt(NamedTuple):
    """The leader of a partition."""

    node: int
    epoch: int


class Role(Enum):
    """What the cluster is to us."""

    SOURCE = auto()
    """A topic that is gone is asked for still: the refusals tell when it is lost."""
    TARGET = auto()
    """A topic that is gone has no leaders: nothing of it may be in a transaction."""


class Leaders:
    """Leaders, topic ids and absence of the topics that somebody needs.

    It does not go back to an earlier leader epoch of a topic, also not over a time without leader.
    For copying: kept new without being asked. Other requests go by the cluster's own `LeaderCache`.
    """

    def __init__(self, cluster: Cluster, clock: Clock, role: Role = Role.SOURCE) -> None:
        self.cluster = cluster
        self._clock = clock
        self._topics: set[str] = set()
        self._leaders: dict[tuple[str, int], LeaderAt] = {}
        self._newest: dict[tuple[str, int], Newest] = {}
        self._short: dict[tuple[str, int], int] = {}
        self._few: set[tuple[str, int]] = set()
        self._ids: dict[str, TopicId] = {}
        self._role = role
        self._partitions: dict[str, tuple[int, ...]] = {}
        self._wanted = asyncio.Event()
        self._leaderless, self._trouble_until = False, 0.0
        self._took_s = 0.0
        self.as_of = -math.inf
        """Monotonic: when the renewal began that the table is from."""
        self._begun = self._done = 0
        self._renewing = asyncio.Lock()
        self._listeners: list[Callable[[], None]] = []
        self.absent_since: dict[str, float] = {}
        self._denied: set[str] = set()
        self._unwanted: dict[str, float] = {}
        self.trouble = ""
        """Why the table could not be renewed the last time; empty when it could."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each renewal."""
        self._listeners.append(listener)

    def need(self, topics: Iterable[str]) -> None:
        """Keep these topics in the table from now on."""
        before = len(self._topics)
        self._topics.update(wanted := set(topics))
        for name in self._unwanted.keys() & wanted:
            del self._unwanted[name]
        if len(self._topics) != before:
            self._wanted.set()

    def keep_only(self, topics: Collection[str]) -> None:
        """Nobody needs the others any more: they are forgotten after a while."""
        now = self._clock.monotonic()
        for name in self._topics.difference(topics):
            self._unwanted.setdefault(name, now)

    def need_partitions(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Ask at once for partitions that the table lacks: topics that we knew may have grown."""
        if any(at not in self._leaders for at in wanted):
            self._wanted.set()

    def of(self, topic: str, partition: int) -> LeaderAt | None:
        """The leader as far as known; None while there is none."""
        return self._leaders.get((topic, partition))

    def lacks(self, topic: str, partition: int) -> bool:
        """Whether there is no leader, for sure: the topic is gone, or known and without one."""
        is_known = topic in self._ids or topic in self.absent_since
        return is_known and (topic, partition) not in self._leaders

    def is_short(self, topic: str, partition: int) -> bool:
        """Whether fewer replicas than there are were in sync."""
        return (topic, partition) in self._short

    def in_sync(self, topic: str, partition: int) -> int | None:
        """How many replicas were in sync where some were not; None where all were."""
        return self._short.get((topic, partition))

    def has_few(self, topic: str, partition: int) -> bool:
        """Whether a partition of one of our own topics takes nothing, for want of replicas."""
        return (topic, partition) in self._few

    def topic_id(self, topic: str) -> TopicId | None:
        """The id that the topic has now; None while it is unknown or absent."""
        return self._ids.get(topic)

    def absent_for(self, topic: str) -> float:
        """Seconds since the cluster has first said that it has no such topic; 0 when it has."""
        since = self.absent_since.get(topic)
        return 0.0 if since is None else self._clock.monotonic() - since

    def denied(self, topic: str) -> bool:
        """Whether the cluster says that we may not even know of the topic (no DESCRIBE)."""
        return topic in self._denied

    def ask(self) -> None:
        """Something in the table proved wrong, and may be wrong in the next one as well."""
        self._trouble_until = self._clock.monotonic() + TROUBLE_S
        self._wanted.set()

    def go_on_asking(self) -> None:
        """What is right now may be wrong soon: for a while longer, as often as after trouble."""
        self._trouble_until = self._clock.monotonic() + TROUBLE_S

    async def keep(self) -> None:
        """Renew when asked, and now and then; runs until cancelled."""
        while True:
            self._wanted.clear()
            try:
                await self.renew()
                self.trouble = ""
            except MirrorfleetError as error:
                self.trouble = str(error)
                _log.warning("metadata is not to be had", extra=fields(error=str(error)))
            await asyncio.sleep(max(LEAST_S, min(ASKED_REST * self._took_s, SOON_S)))
            try:
                async with asyncio.timeout(self._renewed_after_s):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    @property
    def _renewed_after_s(self) -> float:
        in_trouble = self._leaderless or self._clock.monotonic() < self._trouble_until
        return min(max(SOON_S, REST * self._took_s), RENEW_S) if in_trouble else RENEW_S

    async def renewed(self) -> None:
        """A renewal that begins from now on; all who ask while one is under way share the next."""
        asked_at = self._begun
        async with self._renewing:
            if self._done <= asked_at:
                await self.renew()

    async def renew(self) -> None:
        """Read the metadata of all needed topics once."""
        self._forget()
        if not self._topics:
            return
        self._begun += 1
        began, this = self._clock.monotonic(), self._begun
        asked = sorted(self._topics)
        metadata = await self.cluster.metadata(asked)
        now = self._clock.monotonic()
        self._took_s = now - began
        self._leaderless = False
        for name in asked:  # and not those that are needed only since: of them no answer tells
            topic = metadata.topics.get(name)
            if topic is not None and topic.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._denied.add(name)
                self.absent_since.pop(name, None)
                continue
            self._denied.discard(name)
            if topic is None or not topic.partitions:
                self.absent_since.setdefault(name, now)
                self._ids.pop(name, None)
                for number in self._partitions.pop(name, ()):
                    self._leaders.pop((name, number), None)
                continue
            self.absent_since.pop(name, None)
            self._ids[name] = topic.topic_id
            if self._role is Role.TARGET:
                self._partitions[name] = tuple(topic.partitions)
            for number, meta in topic.partitions.items():
                at, told = (name, number), Newest(topic.topic_id, meta.leader_epoch, now)
                known = self._newest.get(at)
                if known is None or not known.outdates(told):
                    self._newest[at] = told
                    self._book(at, meta)
                self._leaderless |= at not in self._leaders
        self._done, self.as_of = max(self._done, this), max(self.as_of, began)
        for listener in self._listeners:
            listener()

    def _forget(self) -> None:
        """Topics come and go in a mirror's life: with all of them this would take ever longer."""
        now = self._clock.monotonic()
        gone = {name for name, since in self._unwanted.items() if now - since > UNWANTED_S}
        if not gone:
            return
        for name in gone:
            self._topics.discard(name)
            for by_name in (self._unwanted, self._ids, self._partitions, self.absent_since):
                by_name.pop(name, None)
        self._denied -= gone
        self._few = {at for at in self._few if at[0] not in gone}
        for by_partition in (self._leaders, self._newest, self._short):
            for at in [at for at in by_partition if at[0] in gone]:
                del by_partition[at]

    def _book(self, at: tuple[str, int], meta: PartitionMeta) -> None:
        if meta.leader < 0:
            self._leaders.pop(at, None)
        else:
            self._leaders[at] = LeaderAt(meta.leader, meta.leader_epoch)
        if len(meta.isr) < len(meta.replicas):
            self._short[at] = len(meta.isr)
        else:
            self._short.pop(at, None)
        if len(meta.isr) < least_in_sync(len(meta.replicas)):
            self._few.add(at)
        else:
            self._few.discard(at)
