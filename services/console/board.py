"""Every view of the console, for pages and API alike; what is not there is a RefusedError."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from mirrorfleet.config.flows import flow_of
from mirrorfleet.core.errors import MirrorfleetError, RefusedError
from mirrorfleet.core.ids import ClusterAlias, Link, TopicPartition
from mirrorfleet.mapping.asking import Direction, translate
from mirrorfleet.mapping.group_asking import GroupAsker
from mirrorfleet.mapping.live import checked_or_told
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.views import groups as group_views
from mirrorfleet.views import pages
from mirrorfleet.views.groups import GroupFacts
from mirrorfleet.views.models import (
    EstateView,
    EventsPage,
    GroupPage,
    GroupsPage,
    LinkPage,
    PartitionPage,
    TopicPage,
    Translation,
)
from mirrorfleet.views.paging import paged

if TYPE_CHECKING:
    from mirrorfleet.config.model import Estate
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.mapping.fleet_watch import ClusterWatch
    from mirrorfleet.offsets.index import OffsetIndex
    from mirrorfleet.policy.flows import Flow
    from mirrorfleet.views.pages import LinkSeen, Wanted
    from mirrorfleet.views.told import Fleet
    from services.console.settings import ConsoleSettings


class Followed(Protocol):
    """A fleet that is kept up to date (`FleetWatch`)."""

    index: OffsetIndex
    map_words: str

    def fleet(self) -> Fleet:
        """It now."""
        ...

    def want_map(self) -> None:
        """Have `index` filled; `map_words` is "" when it is."""
        ...


_KEPT_S: Final = 0.5
"""What was seen or shown serves everybody of that half second ..."""
_SHARE: Final = 10
"""... and for ten times as long as it took, so that each costs a tenth of a core at most."""
_MOST: Final = 64
"""Pages that are kept: who reads on, or filters, wants another one each time."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Kept(Generic[K, V]):
    """What many ask for at once, made once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[K, tuple[float, V]] = {}

    def of(self, key: K, make: Callable[[], V]) -> V:
        """What was made lately, or now."""
        begun, known = self._clock.monotonic(), self._known.get(key)
        if known is not None and begun < known[0]:
            return known[1]
        found = make()
        ended = self._clock.monotonic()
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = ended + max(_KEPT_S, _SHARE * (ended - begun)), found
        return found


class Board:
    """Answers from what the watches know; groups are asked for."""

    def __init__(
        self,
        estate: Estate,
        clusters: Mapping[ClusterAlias, ClusterWatch],
        fleets: Mapping[ClusterAlias, Followed],
        clock: Clock,
        settings: ConsoleSettings,
    ) -> None:
        self._estate, self._clusters, self._fleets = estate, clusters, fleets
        self._clock, self._settings = clock, settings
        self.flows: dict[Link, Flow] = {
            entry.link: flow_of(estate, entry) for entry in estate.links
        }
        self._askers: dict[Link, GroupAsker] = {}
        self._looks: _Kept[Link, LinkSeen] = _Kept(clock)
        self._estates: _Kept[None, EstateView] = _Kept(clock)
        self._links: _Kept[tuple[Link, Wanted], LinkPage] = _Kept(clock)
        self._topics: _Kept[tuple[Link, str, Wanted], TopicPage | None] = _Kept(clock)
        self._events: _Kept[Wanted, EventsPage] = _Kept(clock)

    def estate(self) -> EstateView:
        """Everything at a glance."""
        return self._estates.of(None, self._estate_now)

    def _estate_now(self) -> EstateView:
        now_ms = self._clock.now_ms()
        clusters = [
            watch.view(self._fleets[alias].fleet() if alias in self._fleets else None)
            for alias, watch in self._clusters.items()
        ]
        seen = [self._look(link) for link in self.flows]
        return pages.estate_page(self._estate.estate, clusters, seen, now_ms)

    def link(self, link: Link, wanted: Wanted) -> LinkPage:
        """A link with its topics. Raises: RefusedError."""
        seen, now_ms = self._look(link), self._clock.now_ms()
        return self._links.of((link, wanted), lambda: pages.link_page(seen, wanted, now_ms))

    def topic(self, link: Link, topic: str, wanted: Wanted) -> TopicPage:
        """A topic with its partitions. Raises: RefusedError."""
        seen, now_ms = self._look(link), self._clock.now_ms()
        found = self._topics.of(
            (link, topic, wanted), lambda: pages.topic_page(seen, topic, wanted, now_ms)
        )
        if found is None:
            raise RefusedError(f"{link} copies no topic {topic!r}.", hint=self._why_not(link))
        return found

    def partition(self, link: Link, topic: str, partition: int) -> PartitionPage:
        """A partition. Raises: RefusedError."""
        seen = self._look(link)
        one = pages.find(seen, topic, partition)
        if one is None:
            what = f"{link} copies no partition {topic}-{partition}."
            raise RefusedError(what, hint=self._why_not(link))
        watch = self._fleets[link.target]
        watch.want_map()
        now_ms = self._clock.now_ms()
        return pages.partition_page(seen, one, watch.index, watch.map_words, now_ms)

    def events(self, wanted: Wanted) -> EventsPage:
        """What happened in all fleets."""
        fleets, now_ms = [each.fleet() for each in self._fleets.values()], self._clock.now_ms()
        return self._events.of(wanted, lambda: pages.events_page(fleets, wanted, now_ms))

    async def groups(self, link: Link, wanted: Wanted) -> GroupsPage:
        """Groups of a link; a cluster that does not answer is a word on the page."""
        flow, now_ms = self._flow(link), self._clock.now_ms()

        def choose(states: Mapping[str, str]) -> list[str]:
            names = group_views.listed(flow, states, wanted)
            return paged(names, wanted.number, wanted.size)[0]

        copies, map_words = self._copies(link)
        trouble, facts = "", GroupFacts()
        try:
            facts = self._with_copied(link, await self._asker(link).page(choose, copies))
        except MirrorfleetError as error:
            trouble = str(error)
        page = group_views.groups_page(
            flow, facts, copies, wanted, map_words=map_words, now_ms=now_ms
        )
        return page.model_copy(update={"trouble": trouble})

    async def group(self, link: Link, group: str, wanted: Wanted) -> GroupPage:
        """A group, offset by offset. Raises: RefusedError when neither side knows it."""
        flow, now_ms = self._flow(link), self._clock.now_ms()
        copies, map_words = self._copies(link)
        trouble, facts = "", GroupFacts(source_members=None, target_members=None)
        try:
            facts = self._with_copied(link, await self._asker(link).group(group, copies))
        except MirrorfleetError as error:
            trouble = str(error)
        if not trouble and group not in {**facts.source_states, **facts.target_states}:
            raise RefusedError(f"{link}: no cluster knows a group {group!r}.")
        page = group_views.group_page(
            group, flow, facts, copies, wanted, map_words=map_words, now_ms=now_ms
        )
        return page.model_copy(update={"trouble": trouble, "row": None if trouble else page.row})

    async def translate(
        self, link: Link, at: TopicPartition, offset: int, direction: Direction
    ) -> Translation:
        """One offset on the other side. Raises: RefusedError."""
        copies, map_words = self._copies(link)
        if map_words:
            raise RefusedError(f"the offset map of {link} is not known yet: {map_words}.")
        answer = translate(copies, at, offset, direction)
        source, target = self._clusters[link.source].cluster, self._reachable(link.target)
        answer = await checked_or_told(source, target, answer)
        return group_views.translation(answer, link.source, link.target, direction)

    # -- parts

    def _flow(self, link: Link) -> Flow:
        flow = self.flows.get(link)
        if flow is None:
            names = {str(one): one for one in self.flows}
            hint = pages.unknown_links(names)
            raise RefusedError(f"the estate has no link {link}.", hint=hint)
        return flow

    def _look(self, link: Link) -> LinkSeen:
        self._flow(link)
        fleet, now_ms = self._fleets[link.target].fleet(), self._clock.now_ms()
        return self._looks.of(link, lambda: pages.look(fleet, link, now_ms))

    def _why_not(self, link: Link) -> str:
        fleet = self._fleets[link.target].fleet()
        return fleet.trouble or ("" if fleet.is_read else "Its topics are still being read.")

    def _copies(self, link: Link) -> tuple[Copies, str]:
        self._flow(link)
        watch = self._fleets[link.target]
        watch.want_map()
        fleet = watch.fleet()
        return Copies(fleet.of_link(link), watch.index, fleet.losses), watch.map_words

    def _with_copied(self, link: Link, facts: GroupFacts) -> GroupFacts:
        seen = self._fleets[link.target].fleet().told.seen.items()
        copied = {at: each.partition.next_source for at, each in seen}
        log_starts = {at: each.partition.log_start for at, each in seen}
        return replace(facts, copied=copied, log_starts=log_starts)

    def _asker(self, link: Link) -> GroupAsker:
        """Raises: RefusedError when the settings of a cluster are wrong."""
        known = self._askers.get(link)
        if known is None:
            source, target = (self._reachable(alias) for alias in link)
            known = GroupAsker(source, target, self._clock, self._settings.request_s)
            self._askers[link] = known
        return known

    def _reachable(self, alias: ClusterAlias) -> Cluster:
        watch = self._clusters[alias]
        if watch.cluster is None:
            raise RefusedError(watch.trouble)
        return watch.cluster
