"""What people are shown is kept up here: clusters asked whether they are there, fleets followed.

A cluster that does not answer is a word on its pages; the others do not notice. What was known
of it is shown on, as of when it was read last, until it can be read again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, MirrorfleetError, RefusedError
from mirrorfleet.core.ids import SlotNumber
from mirrorfleet.kafka.control_following import TopicTail
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.mapping.floors import LogFloors
from mirrorfleet.mapping.following import MapFollower
from mirrorfleet.mapping.store import KafkaMapStore
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records import catalog
from mirrorfleet.records.overview import STALE_MS
from mirrorfleet.records.topics import ControlKind, control_topic
from mirrorfleet.runtime.lifecycle import describe, is_ours
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.views.models import ClusterView
from mirrorfleet.views.told import Fleet, Told
from mirrorfleet.views.verdicts import SAMPLE_STALE_MS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mirrorfleet.core.ids import ClusterAlias, FleetName
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster

_AGAIN_S: Final = 2.0
_FORGET_S: Final = 3_600.0
"""Between two looks at what of the offset map both logs have lost."""
_OPTIONAL: Final = (ControlKind.SAMPLES, ControlKind.EVENTS, ControlKind.REPORTS)
"""Fleets of an older release may lack them; their pages then show less."""
_MISSING_S: Final = 30.0
"""Between two looks whether they are there by now: sync makes them when it is of this release."""

_log = logger(__name__)


class ClusterWatch:
    """Whether one cluster is there. `cluster` is None when its settings are wrong (`trouble`)."""

    def __init__(
        self, alias: ClusterAlias, cluster: Cluster | None, clock: Clock, trouble: str = ""
    ) -> None:
        self.alias = alias
        self.cluster = cluster
        self.trouble = trouble
        self.since_ms: int | None = clock.now_ms() if trouble else None
        self._clock = clock
        self._is_known = bool(trouble)

    async def run(self, period_s: float) -> None:
        """Ask for ever."""
        if self.cluster is None:
            return
        while True:
            try:
                await self.cluster.metadata(())
                self._say("")
            except MirrorfleetError as error:
                self._say(str(error))
            await asyncio.sleep(period_s)

    def view(self, fleet: Fleet | None) -> ClusterView:
        """For the pages; `fleet` is the one that copies into it."""
        known = self.cluster if self.cluster is not None and self.cluster.cluster_id else None
        trouble = self.trouble or (fleet.trouble if fleet is not None else "")
        since = self.since_ms if self.trouble or fleet is None else fleet.trouble_since_ms
        return ClusterView(
            alias=self.alias,
            cluster_id=known.cluster_id if known is not None else None,
            brokers=len(known.brokers) if known is not None else None,
            reachable=not self.trouble if self._is_known else None,
            trouble=trouble,
            trouble_time_ms=since,
            fleet=None if fleet is None else fleet.name,
            is_read=None if fleet is None else fleet.is_read,
        )

    def _say(self, trouble: str) -> None:
        if not self._is_known or bool(trouble) != bool(self.trouble):
            self.since_ms = self._clock.now_ms() if trouble else None
        self.trouble, self._is_known = trouble, True


@dataclass(slots=True)
class _State:
    """What was read since the last start."""

    view: CatalogView = field(default_factory=lambda: CatalogView(keeps_removed=True))
    told: Told = field(default_factory=Told)
    waiting: set[ControlKind] = field(default_factory=set)
    """Topics that are not read to where they ended at the start."""
    read_ms: dict[ControlKind, int] = field(default_factory=dict)
    """When each topic was read last, whether something came or not."""
    deaf_ms: dict[SlotNumber, int] = field(default_factory=dict)
    """When progress of a slot, which has a partition of its number, could not be read last; until
    something of it came: where one can be read again, its worker has not spoken yet."""

    def apply(self, kind: ControlKind, key: bytes, value: bytes | None, came_ms: int) -> None:
        """Raises: UnknownVersionError, CorruptBatchError of the catalog."""
        if kind is ControlKind.CATALOG:
            self.view.apply(catalog.decode(key, value))
        else:
            self.told.apply(kind, key, value, came_ms)

    def hear(self, heard: Iterable[int], unheard: Iterable[int], now_ms: int) -> None:
        """Partitions of the progress topic of which records came, and that could not be read."""
        for number in heard:
            self.deaf_ms.pop(SlotNumber(number), None)
        self.deaf_ms |= {SlotNumber(number): now_ms for number in unheard}

    def unheard(self, now_ms: int) -> frozenset[SlotNumber]:
        """Slots whose worker may have written what did not come here."""
        return frozenset(n for n, at_ms in self.deaf_ms.items() if now_ms - at_ms <= STALE_MS)


class FleetWatch:
    """Follows the control topics of one fleet, and its offset map once somebody asks for it."""

    def __init__(
        self,
        watch: ClusterWatch,
        name: FleetName,
        clock: Clock,
        on_change: Callable[[str], None],
        *,
        sources: Mapping[ClusterAlias, ClusterWatch],
        request_s: float,
        history_s: float,
    ) -> None:
        """`on_change` is told the trouble, "" when there is none any more.

        `sources` are asked where their logs begin; other clusters among them do not matter.
        `request_s` is the deadline of a read; events are read from `history_s` ago on.
        """
        self.watch, self.name = watch, name
        self.index = OffsetIndex()
        self.map_words = "it is read when somebody asks for the first time"
        self._clock, self._on_change, self._sources = clock, on_change, sources
        self._request_s, self._history_ms = request_s, int(history_s * 1000)
        self._shown, self._is_read = _State(), False
        self._trouble, self._since_ms = watch.trouble, watch.since_ms
        self._map_wanted = asyncio.Event()

    def fleet(self) -> Fleet:
        """The fleet now; one of which nothing was read for a while is in trouble already."""
        shown = self._shown
        read_ms = min(shown.read_ms.values(), default=None)
        trouble, since_ms = self._trouble, self._since_ms
        if not trouble and read_ms is not None and self._clock.now_ms() - read_ms > STALE_MS:
            trouble = f"{self.watch.alias}: the topics of fleet {self.name!r} are not answered for."
        if trouble and read_ms is not None:
            since_ms = read_ms
        return Fleet(
            target=self.watch.alias,
            name=self.name,
            partitions=shown.view.partitions,
            links=shown.view.links,
            losses=shown.view.losses,
            told=shown.told,
            unheard=shown.unheard(self._clock.now_ms()),
            is_read=self._is_read,
            trouble=trouble,
            trouble_since_ms=since_ms,
            read_ms=read_ms,
        )

    def want_map(self) -> None:
        """Have the offset map read from now on."""
        self._map_wanted.set()

    async def run(self) -> None:
        """Follow for ever; what fails is told and tried again from the begin."""
        cluster = self.watch.cluster
        if cluster is None:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._again(self._follow, cluster, self._say), name="topics")
            group.create_task(self._again(self._follow_map, cluster, self._say_map), name="map")
            group.create_task(self._forget(cluster), name="forget")

    async def _again(
        self,
        work: Callable[[Cluster], Awaitable[None]],
        cluster: Cluster,
        say: Callable[[str], None],
    ) -> None:
        while True:
            try:
                await work(cluster)
            except (MirrorfleetError, ExceptionGroup) as error:
                if not is_ours(error):
                    raise
                say(describe(error))
                _log.warning("fleet not read", extra=fields(fleet=self.name, error=describe(error)))
            await asyncio.sleep(_AGAIN_S)

    # -- control topics

    async def _follow(self, cluster: Cluster) -> None:
        now_ms = self._clock.now_ms()
        since: dict[ControlKind, int | None] = {
            ControlKind.CATALOG: None,
            ControlKind.PROGRESS: None,
            ControlKind.REPORTS: None,
            ControlKind.SAMPLES: now_ms - SAMPLE_STALE_MS,
            ControlKind.EVENTS: now_ms - self._history_ms,
        }
        state = _State(waiting=set(since))
        async with asyncio.TaskGroup() as group:
            for kind, first in since.items():
                topic = control_topic(self.name, kind)
                following = self._follow_topic(cluster, kind, first, state)
                group.create_task(following, name=topic)

    async def _follow_topic(
        self, cluster: Cluster, kind: ControlKind, since_ms: int | None, state: _State
    ) -> None:
        topic = control_topic(self.name, kind)
        while True:
            tail = TopicTail(cluster, topic, self._clock, since_ms=since_ms)
            read_ms = await self._tail(kind, tail, state)
            since_ms = since_ms if read_ms is None else read_ms  # what was there then is applied
            await asyncio.sleep(_MISSING_S)

    async def _tail(self, kind: ControlKind, tail: TopicTail, state: _State) -> int | None:
        """Read it; to an end comes what is missing and may be. When it was read last.

        Raises: RefusedError when it may not, and as `TopicTail.poll`.
        """
        try:
            while True:
                records = await tail.poll(deadline_s=self._request_s)
                for record in records:
                    state.apply(kind, record.key, record.value, tail.came_ms(record))
                state.read_ms[kind] = now_ms = self._clock.now_ms()
                if kind is ControlKind.PROGRESS:
                    state.hear({record.partition for record in records}, tail.unheard, now_ms)
                if tail.caught_up and kind in state.waiting:
                    self._have(kind, state)
        except BrokerError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            if kind not in _OPTIONAL:
                alias = self.watch.alias
                what = f"{alias}: fleet {self.name!r} has no {kind} topic yet."
                raise RefusedError(
                    what, hint=f"Next: mirrorfleet run sync --target {alias}"
                ) from None
            self._have(kind, state)
            return state.read_ms.pop(kind, None)
        finally:
            tail.close()

    def _have(self, kind: ControlKind, state: _State) -> None:
        state.waiting.discard(kind)
        if not state.waiting:
            self._shown, self._is_read = state, True
            self._say("")

    def _say(self, trouble: str) -> None:
        if bool(trouble) != bool(self._trouble):
            self._since_ms = self._clock.now_ms() if trouble else None
        self._trouble = trouble
        self._on_change(trouble)

    # -- offset map

    async def _follow_map(self, cluster: Cluster) -> None:
        await self._map_wanted.wait()
        store = KafkaMapStore(cluster, self.name, self._clock)
        follower = MapFollower(cluster, self.name, store)
        try:
            while True:
                follower.want(self._shown.view.slots)
                await follower.step()
                if not follower.behind and self._is_read:
                    self.index = follower.index
                self.map_words = self._map_words(follower)
                if not follower.slots:
                    await asyncio.sleep(_AGAIN_S)
        finally:
            follower.close()
            store.close()

    def _map_words(self, follower: MapFollower) -> str:
        """What a map lacks that is not whole, or that was whole and is not followed everywhere."""
        total, lost = len(self._shown.view.slots), follower.leaderless
        trouble = next((f": {error}" for error in lost.values()), "")
        if follower.behind or not self._is_read:
            return f"{len(follower.behind)} of {total} slots are still being read{trouble}"
        return f"{len(lost)} of {total} slots are not followed now{trouble}" if lost else ""

    async def _forget(self, cluster: Cluster) -> None:
        """Let go for ever of what nobody can ask about any more; the packer does so in Kafka."""
        floors = LogFloors(cluster)
        while True:
            await asyncio.sleep(_FORGET_S)
            if self.index:
                known = ((alias, watch.cluster) for alias, watch in self._sources.items())
                sources = {alias: source for alias, source in known if source is not None}
                found = await floors.look(sources, self._shown.view.mapped)
                self.index.forget_below(found)

    def _say_map(self, words: str) -> None:
        self.map_words = words
