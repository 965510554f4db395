"""The shapes of pages and API answers; a page shows exactly what its JSON says.

Times are milliseconds since 1970 (`*_time_ms`, `now_ms`) or lengths in milliseconds; rates are per
second. null is "not known", never 0.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from mirrorfleet.records.samples import Verdict
from mirrorfleet.views.format import pairs


class Model(BaseModel):
    """Frozen; the docstring under a field is its description in the API."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Problem(Model):
    """Why a question has no answer."""

    error: str
    """What, where and why."""
    hint: str = ""
    """What to do next."""


class Page(Model):
    """Which part of a long list this is."""

    number: int
    """From 1."""
    pages: int
    size: int
    """Entries of a full page."""
    total: int
    """Entries of all pages, after the filter."""


class Summary(Model):
    """Many partitions in a few numbers."""

    partitions: int
    topics: int
    verdict: Verdict
    """The worst one."""
    verdicts: dict[Verdict, int]
    """Partitions by verdict; those without any are left out."""
    records_s: float | None
    bytes_s: float | None
    lag_records: int | None
    """Source records that are not copied, where that is known."""
    lag_unknown: int
    """Partitions whose lag is not known; they are not in `lag_records`."""
    time_lag_ms: int | None
    """The longest that is known, as the lag service says."""
    time_lag_unknown: int
    """Partitions whose time lag is not known; it may be longer than `time_lag_ms`."""
    eta_ms: int | None
    """Until the last backlog is gone."""
    headroom_ms: int | None
    """The least time until retention reaches a record that is not copied."""


class ClusterView(Model):
    """A cluster of the estate."""

    alias: str
    cluster_id: str | None
    brokers: int | None
    reachable: bool | None
    """null before the first answer."""
    trouble: str
    """Why it cannot be reached or its control topics cannot be read; empty when all is well."""
    trouble_time_ms: int | None
    """Since when."""
    fleet: str | None
    """The fleet that copies into it; null for a source only."""
    is_read: bool | None
    """Whether the fleet's control topics have been read; null for a source only."""


class LinkView(Model):
    """A link in a few numbers."""

    source: str
    target: str
    fleet: str
    known: bool
    """Whether the catalog of the fleet can be read and has this link."""
    read_time_ms: int | None
    """When the fleet's topics were read last: verdicts, rates and ages are of then. null: never."""
    summary: Summary
    words: str
    """How it does, in a sentence."""


class EventView(Model):
    """Something that happened."""

    time_ms: int
    fleet: str
    kind: str
    writer: str
    source: str | None
    target: str | None
    topic: str | None
    partition: int | None
    first: int | None
    """Source offsets [first, end)."""
    end: int | None
    words: str
    """Detail and cause."""


class ReportView(Model):
    """The last report of a Spark job."""

    fleet: str
    kind: str
    about: list[str | int]
    fields: dict[str, object]

    @property
    def shown(self) -> list[tuple[str, str]]:
        """The fields as the page shows them."""
        return pairs(self.fields)


class EstateView(Model):
    """Everything at a glance."""

    estate: str
    now_ms: int
    words: str
    verdict: Verdict
    clusters: list[ClusterView]
    links: list[LinkView]
    events: list[EventView]


class TopicView(Model):
    """A topic of a link."""

    topic: str
    target_topic: str
    flow_rule: str
    summary: Summary


class OwnerView(Model):
    """A worker and the slots of this link that it has."""

    owner: str
    slots: list[int]
    states: list[str]
    """The different states of these slots."""
    partitions: int
    reported_ms: int
    """How long ago it reported last."""


class LinkPage(Model):
    """A link with its topics."""

    now_ms: int
    link: LinkView
    trouble: str
    """Why the fleet cannot be read; empty when it can."""
    owners: list[OwnerView]
    topics: list[TopicView]
    page: Page
    events: list[EventView]
    reports: list[ReportView]


class PartitionRow(Model):
    """Where a partition stands."""

    topic: str
    partition: int
    target_topic: str
    verdict: Verdict
    rule: str
    """The rule that gave the verdict."""
    judge: str
    """Who gave it."""
    judged_time_ms: int | None
    state: str
    """The mirror's word."""
    slot: int
    owner: str | None
    next_source: int | None
    """The source offset at which copying goes on."""
    next_target: int | None
    """The lowest target offset that the next record can get."""
    log_start: int | None
    last_stable: int | None
    """Behind the last source record that a read_committed consumer sees."""
    high_watermark: int | None
    lag_records: int | None
    time_lag_ms: int | None
    """Now minus the time at which the next uncopied record was appended; 0 when idle."""
    propagation_ms: int | None
    """What the last heartbeat took through the link, by the clocks of two hosts: its writer's and
    the lag service's. null when none came lately, or the writer's clock is ahead."""
    records_s: float | None
    bytes_s: float | None
    eta_ms: int | None
    headroom_ms: int | None
    records: int | None
    """Copied since the start of this incarnation."""
    bytes: int | None
    moved_ms: int | None
    """How long ago it moved, had nothing left to copy, or waited for its turn."""
    reported_ms: int | None
    """How long ago the owner reported."""
    fault: str | None


class TopicPage(Model):
    """A topic with its partitions."""

    now_ms: int
    source: str
    target: str
    trouble: str
    """Why the fleet cannot be read; empty when it can."""
    read_time_ms: int | None
    """When the fleet's topics were read last: verdicts, rates and ages are of then. null: never."""
    topic: TopicView
    partitions: list[PartitionRow]
    page: Page


class SegmentView(Model):
    """The end of a partition's offset map."""

    source_offset: int
    """The last copied record at the source."""
    target_offset: int
    """The same record at the target."""
    copied_to: int
    """Behind the last source offset that was looked at; markers and aborted records included."""
    pieces: int
    """Stretches without a hole that the map has."""


class Step(Model):
    """Something to do."""

    words: str
    command: str = ""


class PartitionPage(Model):
    """Why a partition is where it is."""

    now_ms: int
    source: str
    target: str
    trouble: str
    """Why the fleet cannot be read; empty when it can."""
    read_time_ms: int | None
    """When the fleet's topics were read last: verdicts, rates and ages are of then. null: never."""
    row: PartitionRow
    headline: str
    why: list[str]
    steps: list[Step]
    segment: SegmentView | None
    segment_words: str
    priority: str
    flow_rule: str
    start: str
    throttle: int | None
    throttle_asked: bool
    incarnation: int
    source_topic_id: str
    target_topic_id: str
    events: list[EventView]


class GroupRow(Model):
    """A consumer group on both sides of a link."""

    group: str
    source_state: str
    target_state: str
    partitions: int
    """Partitions of this link with an offset of the group."""
    verdict: str
    """In place, behind, ahead, not copied, partly, not set, none or unknown: see `words`."""
    words: str


class GroupsPage(Model):
    """Groups of a link."""

    now_ms: int
    source: str
    target: str
    trouble: str
    """Why there are none to show; empty when there are, or none exist."""
    map_words: str
    """How far the offset map is read; empty when it is."""
    groups: list[GroupRow]
    page: Page


class GroupOffsetRow(Model):
    """One offset of a group."""

    topic: str
    partition: int
    target_topic: str
    source_offset: int
    translated: int | None
    """The same place on the target; null when it is not known, nothing is copied yet, or the copy
    was deleted."""
    found: str | None
    """exact, end or before-copy."""
    target_offset: int | None
    """What the group has on the target."""
    uncopied: int = 0
    """Offsets before the group at the source that are not copied yet: they come behind its place.
    """
    left_out: int = 0
    """Offsets behind the group that the source still has, from before copying began."""
    words: str


class GroupPage(Model):
    """A group, offset by offset."""

    now_ms: int
    source: str
    target: str
    group: str
    trouble: str
    map_words: str
    row: GroupRow | None
    source_members: list[str] | None
    """Client ids and hosts; null when the cluster did not tell them."""
    target_members: list[str] | None
    offsets: list[GroupOffsetRow]
    page: Page


class Translation(Model):
    """One offset on the other side."""

    source: str
    target: str
    topic: str
    partition: int
    offset: int
    direction: str
    other_topic: str
    other_offset: int
    found: str
    copied_to: int
    unchecked: str
    """Why nobody knows whether the target has the copy still; empty when it has."""
    words: str


class EventsPage(Model):
    """What happened, newest first."""

    now_ms: int
    events: list[EventView]
    page: Page
