"""Where partitions stand: one `Standing` each, and many of them as a `Summary`.

A `Standing` is cheap, so that ten thousand can be made each second somebody looks; the model of a
row (`row_of`) is made only for what is shown.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorfleet.records.overview import is_silent
from mirrorfleet.views.models import PartitionRow, Summary
from mirrorfleet.views.verdicts import Judge, Judged, judge, worst

if TYPE_CHECKING:
    from mirrorfleet.core.ids import Link
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.overview import Reported
    from mirrorfleet.records.progress import PartitionProgress, Progress
    from mirrorfleet.records.samples import Sample
    from mirrorfleet.views.told import Fleet, Rate, Told


@dataclass(frozen=True, slots=True)
class Standing:
    """One partition: what the catalog says, what its owner said, and how it does."""

    entry: CatalogPartition
    seen: Reported | None
    judged: Judged
    rate: Rate | None
    sample: Sample | None = None
    """What the lag service measured; only while it is the judge."""
    of_slot: Progress | None = None
    """The last word of its slot's owner, who may not know the partition yet."""
    is_silent: bool = False
    """Whether the owner's report is old: what it says of the source is history."""
    is_unheard: bool = False
    """Whether the target does not tell here what its owner says now."""

    @property
    def known(self) -> PartitionProgress | None:
        """The owner's report of it."""
        return None if self.seen is None else self.seen.partition

    @property
    def lag_records(self) -> int | None:
        """Source offsets that are not copied: by an owner who knows, else by the lag service."""
        told = None if self.known is None or self.is_silent else self.known.lag_records
        return self.sample.lag_records if told is None and self.sample is not None else told

    @property
    def eta_ms(self) -> int | None:
        """Until the backlog is gone; 0 without one, None when it is not known or never.

        What comes meanwhile at the source counts against what is copied.
        """
        if self.sample is not None:
            return self.sample.eta_ms
        lag = self.lag_records
        if lag == 0:
            return 0
        gain = None if self.rate is None else self.rate.gain_s
        if lag is None or gain is None or gain <= 0:
            return None
        return int(lag / gain * 1000)


def standings(fleet: Fleet, link: Link, now_ms: int) -> list[Standing]:
    """The partitions of a link, by topic and number, as of when the fleet was read last."""
    as_of_ms = fleet.as_of(now_ms)
    found = [
        _standing(fleet.told, entry, as_of_ms, is_unheard=entry.slot in fleet.unheard)
        for entry in fleet.of_link(link)
    ]
    found.sort(key=lambda one: (one.entry.source_topic, one.entry.identity.partition))
    return found


def _standing(told: Told, entry: CatalogPartition, now_ms: int, *, is_unheard: bool) -> Standing:
    seen, sample = told.seen.get(entry.identity), told.sample_of(entry)
    of_slot = told.slots.get(entry.slot)
    judged = judge(entry, seen, sample, now_ms, of_slot, is_unheard=is_unheard)
    fresh = sample if judged.judge is Judge.LAG else None
    silent = seen is not None and is_silent(seen.snapshot, now_ms)
    rate = told.rate(entry.identity, now_ms)
    return Standing(entry, seen, judged, rate, fresh, of_slot, silent, is_unheard)


def by_topic(all_of_link: Iterable[Standing]) -> dict[str, list[Standing]]:
    """The same, by source topic."""
    found: dict[str, list[Standing]] = {}
    for one in all_of_link:
        found.setdefault(one.entry.source_topic, []).append(one)
    return found


def summary(of: Sequence[Standing]) -> Summary:
    """Many in a few numbers; what is not known of any of them is None."""
    tally = Tally(one.judged.verdict for one in of)
    lags = _known(one.lag_records for one in of)
    rates = [one.rate for one in of if one.rate is not None]
    etas = [one.eta_ms for one in of]
    samples = [one.sample for one in of if one.sample is not None]
    time_lags = _known(one.time_lag_ms for one in samples)
    return Summary(
        partitions=len(of),
        topics=len({one.entry.source_topic for one in of}),
        verdict=worst(tally),
        verdicts=dict(tally),
        records_s=sum(rate.records_s for rate in rates) if rates else None,
        bytes_s=sum(rate.bytes_s for rate in rates) if rates else None,
        lag_records=sum(lags) if lags else None,
        lag_unknown=len(of) - len(lags),
        time_lag_ms=max(time_lags, default=None),
        time_lag_unknown=len(of) - len(time_lags),
        eta_ms=None if None in etas else max(_known(etas), default=0),
        headroom_ms=min(_known(one.headroom_ms for one in samples), default=None),
    )


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]


def _source_end(one: Standing) -> int | None:
    known = one.known
    if known is not None and known.lag_records is not None and not one.is_silent:
        return known.last_stable
    return None if one.sample is None else one.sample.source_end


def row_of(one: Standing, now_ms: int) -> PartitionRow:
    """The row of a partition."""
    entry, known, sample = one.entry, one.known, one.sample
    read = known if known is not None and known.high_watermark >= 0 else None
    snapshot = one.of_slot if one.seen is None else one.seen.snapshot
    return PartitionRow(
        topic=entry.source_topic,
        partition=entry.identity.partition,
        target_topic=entry.target_topic,
        verdict=one.judged.verdict,
        rule=one.judged.rule,
        judge=one.judged.judge,
        judged_time_ms=one.judged.time_ms,
        state=str(entry.state) if known is None else known.state,
        slot=entry.slot,
        owner=None if snapshot is None else snapshot.owner,
        next_source=None if known is None else known.position,
        next_target=None if known is None or known.position is None else known.next_target,
        log_start=None if read is None else read.log_start,
        last_stable=_source_end(one),
        high_watermark=None if read is None else read.high_watermark,
        lag_records=one.lag_records,
        time_lag_ms=None if sample is None else sample.time_lag_ms,
        propagation_ms=None if sample is None else sample.propagation_ms,
        records_s=None if one.rate is None else one.rate.records_s,
        bytes_s=None if one.rate is None else one.rate.bytes_s,
        eta_ms=one.eta_ms,
        headroom_ms=None if sample is None else sample.headroom_ms,
        records=None if known is None else known.records,
        bytes=None if known is None else known.bytes,
        moved_ms=None if known is None else max(0, now_ms - known.last_progress_ms),
        reported_ms=None if snapshot is None else max(0, now_ms - snapshot.time_ms),
        fault=None if known is None else known.fault or None,
    )
