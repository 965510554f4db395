"""The estate's, a link's, a topic's and a partition's page, from fleets at one moment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.records.identity import topic_id_text
from mirrorfleet.records.samples import Verdict
from mirrorfleet.views import words
from mirrorfleet.views.models import (
    ClusterView,
    EstateView,
    EventsPage,
    EventView,
    LinkPage,
    LinkView,
    OwnerView,
    PartitionPage,
    ReportView,
    TopicPage,
    TopicView,
)
from mirrorfleet.views.paging import PAGE, paged
from mirrorfleet.views.standing import Standing, by_topic, row_of, standings, summary
from mirrorfleet.views.verdicts import worst

if TYPE_CHECKING:
    from mirrorfleet.core.ids import Link
    from mirrorfleet.offsets.index import OffsetIndex
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.events import Event
    from mirrorfleet.views.told import Fleet

LAST_EVENTS: Final = 10
PROBLEMS: Final = "problems"
"""The filter that leaves out what is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which part of a list is asked for. `text` filters by name, `show` by verdict."""

    text: str = ""
    show: str = ""
    number: int = 1
    size: int = PAGE


@dataclass(frozen=True, slots=True)
class LinkSeen:
    """A link of the estate with the fleet that copies it, and its partitions now."""

    link: Link
    fleet: Fleet
    partitions: list[Standing]


def look(fleet: Fleet, link: Link, now_ms: int) -> LinkSeen:
    """The link at this moment."""
    return LinkSeen(link, fleet, standings(fleet, link, now_ms))


def estate_page(
    estate: str, clusters: Sequence[ClusterView], seen: Sequence[LinkSeen], now_ms: int
) -> EstateView:
    """Everything at a glance."""
    links = [link_view(one) for one in seen]
    fleets = {one.fleet.name: one.fleet for one in seen}
    verdicts = [one.summary.verdict if one.known else Verdict.UNKNOWN for one in links]
    return EstateView(
        estate=estate,
        now_ms=now_ms,
        words=words.estate_words(links),
        verdict=worst(verdicts),
        clusters=list(clusters),
        links=links,
        events=[event_view(one) for one in newest(fleets.values())[:LAST_EVENTS]],
    )


def link_view(seen: LinkSeen) -> LinkView:
    """A link in a few numbers."""
    fleet, link = seen.fleet, seen.link
    found = summary(seen.partitions)
    known = link.source in fleet.links or bool(seen.partitions)
    return LinkView(
        source=link.source,
        target=link.target,
        fleet=fleet.name,
        known=known and not fleet.trouble,
        read_time_ms=fleet.read_ms,
        summary=found,
        words=words.link_words(_why_nothing(fleet, link, known=known), found),
    )


def _why_nothing(fleet: Fleet, link: Link, *, known: bool) -> str:
    if fleet.trouble:
        return words.not_read(fleet)
    if not fleet.is_read:
        return f"The topics of fleet {fleet.name} are being read."
    if not known:
        return (
            f"The catalog of fleet {fleet.name} does not have this link yet. Next: mirrorfleet run"
            f" sync --target {link.target}"
        )
    return ""


def link_page(seen: LinkSeen, wanted: Wanted, now_ms: int) -> LinkPage:
    """A link with its topics; `wanted.show` = "problems" leaves out topics that are well."""
    fleet, link = seen.fleet, seen.link
    topics = [
        topic_view(topic, found)
        for topic, found in sorted(by_topic(seen.partitions).items())
        if wanted.text.lower() in topic.lower()
    ]
    if wanted.show == PROBLEMS:
        topics = [one for one in topics if not one.summary.verdict.fine]
    shown, page = paged(topics, wanted.number, wanted.size)
    events = [one for one in newest([fleet]) if one.event.link in {None, link}]
    return LinkPage(
        now_ms=now_ms,
        link=link_view(seen),
        trouble=fleet.trouble,
        owners=_owners(seen, fleet.as_of(now_ms)),
        topics=shown,
        page=page,
        events=[event_view(one) for one in events[:LAST_EVENTS]],
        reports=_reports(fleet, link),
    )


def topic_view(topic: str, found: Sequence[Standing]) -> TopicView:
    """A topic of a link, from its partitions (at least one)."""
    first = found[0].entry
    return TopicView(
        topic=topic,
        target_topic=first.target_topic,
        flow_rule=first.rule,
        summary=summary(found),
    )


def topic_page(seen: LinkSeen, topic: str, wanted: Wanted, now_ms: int) -> TopicPage | None:
    """A topic with its partitions; None when the link copies no such topic."""
    found = by_topic(seen.partitions).get(topic)
    if found is None:
        return None
    listed = [one for one in found if wanted.show != PROBLEMS or not one.judged.verdict.fine]
    shown, page = paged(listed, wanted.number, wanted.size)
    return TopicPage(
        now_ms=now_ms,
        source=seen.link.source,
        target=seen.link.target,
        trouble=seen.fleet.trouble,
        read_time_ms=seen.fleet.read_ms,
        topic=topic_view(topic, found),
        partitions=[row_of(one, seen.fleet.as_of(now_ms)) for one in shown],
        page=page,
    )


def find(seen: LinkSeen, topic: str, partition: int) -> Standing | None:
    """A partition by its source name; the newest incarnation where there are several."""
    found = [
        one
        for one in seen.partitions
        if (one.entry.source_topic, one.entry.identity.partition) == (topic, partition)
    ]
    return max(found, key=lambda one: one.entry.identity.incarnation, default=None)


def partition_page(
    seen: LinkSeen, one: Standing, index: OffsetIndex, map_words: str, now_ms: int
) -> PartitionPage:
    """Why a partition is where it is; `map_words`: how far the map is read, "" when it is."""
    entry, identity = one.entry, one.entry.identity
    fleet, as_of_ms = seen.fleet, seen.fleet.as_of(now_ms)
    unread = words.not_read(fleet)
    segment = words.segment_view(index.of(identity))
    mine = [one for one in newest([fleet]) if _is_about(one.event, entry)]
    return PartitionPage(
        now_ms=now_ms,
        source=seen.link.source,
        target=seen.link.target,
        trouble=fleet.trouble,
        read_time_ms=fleet.read_ms,
        row=row_of(one, as_of_ms),
        headline=words.headline(one, as_of_ms, unread),
        why=words.why(one, as_of_ms, unread),
        steps=words.steps(one, as_of_ms, unread),
        segment=segment,
        segment_words=words.segment_words(segment, map_words),
        priority=entry.priority,
        flow_rule=entry.rule,
        start=entry.start,
        throttle=entry.throttle,
        throttle_asked=entry.throttle_asked,
        incarnation=identity.incarnation,
        source_topic_id=topic_id_text(identity.source_topic_id),
        target_topic_id=topic_id_text(identity.target_topic_id),
        events=[event_view(one) for one in mine[:LAST_EVENTS]],
    )


def events_page(fleets: Iterable[Fleet], wanted: Wanted, now_ms: int) -> EventsPage:
    """What happened in all fleets, newest first; `wanted.text` looks at kind, topic and words."""
    text = wanted.text.lower()
    found = [one for one in newest(fleets) if text in one.words.lower()]
    shown, page = paged(found, wanted.number, wanted.size)
    return EventsPage(now_ms=now_ms, events=[event_view(one) for one in shown], page=page)


class Happened(NamedTuple):
    """An event of a fleet."""

    fleet: str
    event: Event

    @property
    def words(self) -> str:
        """All of it that can be looked for."""
        event = self.event
        return f"{event.kind} {event.topic or ''} {event.detail} {event.cause} {self.fleet}"


def newest(fleets: Iterable[Fleet]) -> list[Happened]:
    """Events of fleets, newest first."""
    found = [Happened(fleet.name, event) for fleet in fleets for event in fleet.told.events]
    found.sort(key=lambda one: one.event.time_ms, reverse=True)
    return found


def event_view(of: Happened) -> EventView:
    """An event for people."""
    fleet, event = of
    cause = f" ({event.cause})" if event.cause and event.cause not in event.detail else ""
    return EventView(
        time_ms=event.time_ms,
        fleet=fleet,
        kind=event.kind,
        writer=event.writer,
        source=event.link.source if event.link else None,
        target=event.link.target if event.link else None,
        topic=event.topic,
        partition=event.partition,
        first=event.first,
        end=event.end,
        words=f"{event.detail}{cause}".strip(),
    )


def _is_about(event: Event, entry: CatalogPartition) -> bool:
    """Whether it is about this partition, or all of its topic."""
    return (event.link, event.topic) == (entry.link, entry.source_topic) and event.partition in {
        None,
        entry.identity.partition,
    }


def _owners(seen: LinkSeen, now_ms: int) -> list[OwnerView]:
    found: dict[str, list[Standing]] = {}
    for one in seen.partitions:
        if one.seen is not None:
            found.setdefault(one.seen.snapshot.owner, []).append(one)
    return [_owner(owner, of, now_ms) for owner, of in sorted(found.items())]


def _owner(owner: str, of: Sequence[Standing], now_ms: int) -> OwnerView:
    snapshots = [one.seen.snapshot for one in of if one.seen is not None]
    return OwnerView(
        owner=owner,
        slots=sorted({one.slot for one in snapshots}),
        states=sorted({one.state for one in snapshots}),
        partitions=len(of),
        reported_ms=max(0, now_ms - max(one.time_ms for one in snapshots)),
    )


def _reports(fleet: Fleet, link: Link) -> list[ReportView]:
    """The last report of each kind and topic of a link."""
    last: dict[tuple[str | int, ...], ReportView] = {}
    for report in fleet.told.reports.values():
        if report.about[:1] == (str(link),):
            view = ReportView(
                fleet=fleet.name,
                kind=report.kind,
                about=list(report.about),
                fields=dict(report.fields),
            )
            last[(report.kind, *report.about[:2])] = view
    return [last[key] for key in sorted(last, key=str)]


def unknown_links(links: Mapping[str, object]) -> str:
    """The hint for a link that the estate does not have."""
    return f"Links: {', '.join(sorted(links))}." if links else "The estate has no link."
