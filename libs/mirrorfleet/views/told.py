"""What the services of one fleet told through its control topics, kept as readers need it. Pure.

    catalog   -> entries by identity (`CatalogView` keeps them; handed in)
    progress  -> the newest snapshot of each slot, and rates between two of them
    samples   -> the newest of each partition and slot
    events    -> the last `MOST_EVENTS`, newest last
    reports   -> the last of each kind, link and topic

Of one slot the log's order says what is newest, because a worker's clock may go back, and that of
the next one may be behind. Which of two slots has a partition's samples the catalog says: two
instances of `lag` may have told of it. What cannot be read is counted in `skipped`, by topic.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mirrorfleet.core.ids import ClusterAlias, FleetName, Link, PartitionIdentity, SlotNumber
from mirrorfleet.records import events, progress, reports, samples, traces
from mirrorfleet.records.catalog import CatalogLink, CatalogLoss, CatalogPartition
from mirrorfleet.records.events import Event
from mirrorfleet.records.overview import Reported, is_silent
from mirrorfleet.records.progress import PartitionProgress, Progress
from mirrorfleet.records.reports import Report
from mirrorfleet.records.samples import Sample
from mirrorfleet.records.topics import ControlKind

MOST_EVENTS: Final = 5_000
RATE_OVER_MS: Final = 4_000
"""Rates are taken over at least so long, because owners report each second and commit in steps."""


class Rate(NamedTuple):
    """What one partition copies a second, and how fast both ends of its backlog move.

    Backlogs are told in offsets, and only some of those are records: markers are none, nor is what
    was aborted or compacted away.
    """

    records_s: float
    bytes_s: float
    drained_s: float
    """Source offsets that were passed."""
    arrived_s: float | None
    """Source offsets that came; None where an end of the source was not known, or it went back."""

    @property
    def gain_s(self) -> float | None:
        """By how much the backlog shrinks; below 0 when it grows."""
        return None if self.arrived_s is None else self.drained_s - self.arrived_s


class _Anchor(NamedTuple):
    """Where a rate is measured from."""

    time_ms: int
    records: int
    nbytes: int
    next_source: int
    last_stable: int | None
    """None where the owner does not know where the source ends now."""
    owner: str

    def leads_to(self, other: _Anchor) -> bool:
        """The same owner counted on, and no clock was set back."""
        grew = other.records >= self.records and other.time_ms >= self.time_ms
        return grew and other.owner == self.owner

    def rate_to(self, other: _Anchor) -> Rate:
        """What came of it until then."""
        scale = 1000 / (other.time_ms - self.time_ms)
        arrived = None
        if self.last_stable is not None and other.last_stable is not None:
            arrived = other.last_stable - self.last_stable
        return Rate(
            records_s=(other.records - self.records) * scale,
            bytes_s=(other.nbytes - self.nbytes) * scale,
            drained_s=(other.next_source - self.next_source) * scale,
            arrived_s=None if arrived is None or arrived < 0 else arrived * scale,
        )


@dataclass(slots=True)
class Told:
    """The state of one fleet as far as its topics say; `apply` takes their records."""

    seen: dict[PartitionIdentity, Reported] = field(default_factory=dict)
    slots: dict[SlotNumber, Progress] = field(default_factory=dict)
    samples: dict[tuple[Link, str, int, SlotNumber], Sample] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    reports: dict[tuple[str | int, ...], Report] = field(default_factory=dict)
    skipped: Tally[ControlKind] = field(default_factory=Tally)
    _rates: dict[PartitionIdentity, Rate] = field(default_factory=dict)
    _anchors: dict[PartitionIdentity, _Anchor] = field(default_factory=dict)

    def apply(
        self, kind: ControlKind, key: bytes | None, value: bytes | None, came_ms: int | None = None
    ) -> None:
        """Take one record of a control topic; other kinds than those above are ignored.

        Snapshots and samples are as of `came_ms`, when they came by the reader's clock; without it
        as their writers say.
        """
        match kind:
            case ControlKind.PROGRESS if not traces.is_ours(key):
                found = progress.decode(key, value, heard_ms=came_ms)
                if isinstance(found, Progress):
                    return self._take_snapshot(found)
            case ControlKind.SAMPLES:
                sample = samples.decode(key, value, heard_ms=came_ms)
                if isinstance(sample, Sample):
                    at = (sample.link, sample.topic, sample.partition, sample.slot)
                    self.samples[at] = sample
                    return None
            case ControlKind.EVENTS:
                event = events.decode(value)
                if isinstance(event, Event):
                    return self.events.append(event)
            case ControlKind.REPORTS:
                report = reports.decode(key, value)
                if isinstance(report, Report):
                    self.reports[(report.kind, *report.about[:2])] = report
                    return None
                if value is None:
                    return self._withdraw(reports.decode_key(key))
            case _:
                return None
        self.skipped[kind] += 1
        return None

    def rate(self, identity: PartitionIdentity, now_ms: int) -> Rate | None:
        """What the partition copies now; None when its owner is silent or reported only once."""
        seen = self.seen.get(identity)
        if seen is None or is_silent(seen.snapshot, now_ms):
            return None
        return self._rates.get(identity)

    def sample_of(self, entry: CatalogPartition) -> Sample | None:
        """The newest sample of a partition, from who watches its slot."""
        at = (entry.link, entry.source_topic, entry.identity.partition, entry.slot)
        return self.samples.get(at)

    def _withdraw(self, key: tuple[str, Sequence[str | int]] | None) -> None:
        """A tombstone takes away the report that it is about, and no newer one of the topic."""
        if key is not None:
            kind, about = key
            at = (kind, *about[:2])
            if at in self.reports and self.reports[at].about == tuple(about):
                del self.reports[at]

    def _take_snapshot(self, snapshot: Progress) -> None:
        self.slots[snapshot.slot] = snapshot
        head = replace(snapshot, partitions=())  # of a topic that is gone it stays for ever
        for partition in snapshot.partitions:
            known = self.seen.get(partition.identity)
            last = None if known is None else known.snapshot
            if last is None or last.slot == snapshot.slot or last.time_ms <= snapshot.time_ms:
                self.seen[partition.identity] = Reported(head, partition)
                self._measure(snapshot, partition)

    def _measure(self, snapshot: Progress, partition: PartitionProgress) -> None:
        at = partition.identity
        if partition.position is None:
            self._anchors.pop(at, None)
            self._rates.pop(at, None)
            return
        here = _Anchor(
            time_ms=snapshot.time_ms,
            records=partition.records,
            nbytes=partition.bytes,
            next_source=partition.next_source,
            last_stable=None if partition.lag_records is None else partition.last_stable,
            owner=snapshot.owner,
        )
        anchor = self._anchors.get(at)
        if anchor is None or not anchor.leads_to(here):
            self._anchors[at] = here
            self._rates.pop(at, None)
            return
        if here.time_ms - anchor.time_ms >= RATE_OVER_MS:
            self._rates[at] = anchor.rate_to(here)
            self._anchors[at] = here


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One fleet at one moment. `trouble` says why its topics cannot be read, "" when they can."""

    target: ClusterAlias
    name: FleetName
    partitions: Mapping[PartitionIdentity, CatalogPartition]
    links: Mapping[ClusterAlias, CatalogLink]
    told: Told
    losses: Mapping[PartitionIdentity, CatalogLoss] = field(default_factory=dict)
    """Of former incarnations, too."""
    unheard: Collection[SlotNumber] = ()
    """Slots of which the target does not tell here whether their worker has written."""
    is_read: bool = True
    """Whether everything that was there at the start has been read."""
    trouble: str = ""
    trouble_since_ms: int | None = None
    read_ms: int | None = None
    """When all of its topics were read last; None when they never were, or are at this moment."""

    def as_of(self, now_ms: int) -> int:
        """When to judge at: what nobody read makes no word older, and no owner silent."""
        return now_ms if self.read_ms is None else min(now_ms, self.read_ms)

    def of_link(self, link: Link) -> Iterable[CatalogPartition]:
        """What one link copies."""
        return (entry for entry in self.partitions.values() if entry.link == link)
