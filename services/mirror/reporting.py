"""What a worker tells others: progress, gauges, `/status`. Pure: state in, records out."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING

from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.copying.limits import Found, Limit, look_at
from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.records.overview import duration
from mirrorfleet.records.progress import (
    FAULTED,
    STARTING,
    THROTTLED,
    UNREACHABLE,
    WAITING,
    PartitionProgress,
    Progress,
    held_up,
)
from mirrorfleet.runtime import metric_names as names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mirrorfleet.copying.faults import Fault
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ids import Link, PartitionIdentity
    from mirrorfleet.runtime.metrics import Metrics
    from mirrorfleet.slots.runner import SlotRunner

Labels = tuple[str, ...]
NO_RETENTION_S = 10 * 365 * 86_400.0
"""Shown as headroom where nothing is ever deleted: ten years, so that a least over topics works."""
FRESH = 0.1
"""Share of the retention: a record that is no older has nothing near."""
UNTAKEN_S = 10.0
"""A slot changes hands in less; then it is told why it is not copied."""
AWAY_S = 10.0
"""A leader moves, or a broker starts again, in less."""
SILENT_S = 30.0
"""A coordinator that moves, or whose broker starts again, answers in less."""
TROUBLE_MOST = 300
"""Characters of it: each second's record has them."""


def partitions_of(runner: SlotRunner) -> list[CopyPartition]:
    """All that the slot copies or copied last, and those that it cannot begin to."""
    known = (runner.slot.partitions.values(), runner.unstarted.values(), runner.untaken.partitions)
    return [partition for each in known for partition in each]


def _stood_s(partition: CopyPartition, now: float) -> float:
    """How long ago it moved last; to wait for its `throttle` is not to stand still."""
    paused_to = 0.0 if partition.queue else min(partition.spent_until, now)
    return max(0.0, now - max(partition.progress_at, paused_to))


def untaken_s(runner: SlotRunner, now: float) -> float:
    """For how long the slot is not copied though it is ours; 0 while it is."""
    since = runner.untaken.since
    return 0.0 if since is None else max(0.0, now - since)


def trouble(runner: SlotRunner, now: float) -> str:
    """Why the slot is not copied; empty as long as it may only change hands."""
    lasts = untaken_s(runner, now)
    if lasts < UNTAKEN_S:
        return ""
    said = runner.trouble or f"no answer for {duration(int(lasts * 1000))}"
    return said[:TROUBLE_MOST].removesuffix(".")  # others say it within a sentence


def standing_still(runners: Iterable[SlotRunner], now: float) -> str:
    """Why a worker copies none of its slots; "" when it copies one, or has none.

    One slot of many that is not copied has verdicts and alerts of its own.
    """
    found = [(runner.number, trouble(runner, now)) for runner in runners]
    if not found or not all(why for _, why in found):
        return ""
    number, why = found[0]
    return f"none of {len(found)} slots is copied; slot {number}: {why}"


def unconfirmed(group: str, silent_s: float, runners: Iterable[SlotRunner]) -> str:
    """Why a worker copies nothing whose coordinator is silent: others have its slots by then.

    "" while it copies: alone it loses none.
    """
    if silent_s < SILENT_S or any(runner.state == SlotState.COPYING for runner in runners):
        return ""
    lasts = duration(int(silent_s * 1000))
    return f"{group}: its coordinator has named no member here for {lasts}; others copy its slots"


def standing(partition: CopyPartition) -> Fault | None:
    """Why a partition stands still; also while it is tried again, until it has recovered."""
    return partition.fault or partition.reported


def is_away(runner: SlotRunner, partition: CopyPartition) -> bool:
    """Whether its source has not answered for a while: what it has by now is not known."""
    since = partition.away_since
    return since is not None and runner.clock.monotonic() - since >= AWAY_S


def lag(runner: SlotRunner, partition: CopyPartition) -> int | None:
    """Offsets that a committed reader of the source sees and the target lacks; None: not known.

    Of one that stands still, or is to, nothing is fetched: its source has moved on since.
    """
    is_fetched = partition.fault is None and partition.entry.is_active
    is_known = is_fetched and not is_away(runner, partition)
    return runner.slot.lag(partition) if is_known else None


def state_word(runner: SlotRunner, partition: CopyPartition) -> str:
    """One word for where a partition of the slot is."""
    if standing(partition) is not None:
        return FAULTED
    if not partition.entry.is_active:
        return str(partition.entry.state)
    if runner.untaken.since is not None:
        return STARTING
    if is_away(runner, partition):
        return UNREACHABLE
    if partition.source.last_stable < 0:
        return STARTING
    return _pace_word(runner, partition)


def _pace_word(runner: SlotRunner, partition: CopyPartition) -> str:
    """How what its source has left comes over, or what that waits for."""
    if runner.slot.waits(partition):
        return WAITING
    is_spent = partition.spent_until > runner.clock.monotonic()
    return THROTTLED if is_spent and not partition.queue else str(partition.pace)


def snapshot(runner: SlotRunner, now_ms: int, now: float) -> Progress:
    """The slot as of now."""
    why = trouble(runner, now)
    return Progress(
        slot=runner.number,
        time_ms=now_ms,
        owner=runner.owner,
        state=held_up(runner.state, why) if why else str(runner.state),
        partitions=tuple(
            _progress(runner, partition, now_ms, now) for partition in partitions_of(runner)
        ),
    )


def _progress(
    runner: SlotRunner, partition: CopyPartition, now_ms: int, now: float
) -> PartitionProgress:
    source, committed = partition.source, partition.committed
    oldest = partition.queue[0].batch.oldest_timestamp if partition.queue else None
    return PartitionProgress(
        identity=partition.identity,
        source_topic=partition.entry.source_topic,
        target_topic=partition.entry.target_topic,
        next_source=runner.slot.settled(partition),
        next_target=committed.next_target,
        high_watermark=SourceOffset(source.high_watermark),
        last_stable=SourceOffset(source.last_stable),
        log_start=SourceOffset(source.log_start),
        records=committed.records,
        bytes=committed.bytes,
        last_progress_ms=now_ms - int(_stood_s(partition, now) * 1000),
        oldest_uncopied_ms=oldest if oldest is not None and oldest >= 0 else None,
        state=state_word(runner, partition),
        fault=str(standing(partition) or ""),
    )


class Looks:
    """What limits each slot, looked at with every report. `cpu_s` are those of the process."""

    def __init__(self, cpu_s: Callable[[], float]) -> None:
        self._cpu_s = cpu_s
        self._before = (0.0, 0.0)

    def look(self, runners: Iterable[SlotRunner], now: float) -> None:
        """One more look at all of them."""
        (was_at, had), spent = self._before, self._cpu_s()
        self._before = (now, spent)
        share = (spent - had) / (now - was_at) if was_at and now > was_at else 0.0
        for runner in runners:
            runner.limits.looked(
                look_at(
                    runner.slot,
                    runner.limits.lines.values(),
                    memory=runner.budget.used / runner.budget.limit,
                    cpu=share,
                )
            )


def copied(runner: SlotRunner) -> dict[PartitionIdentity, int]:
    """Bytes that each partition has copied since it began; while the slot is taken none are known,
    and all come at once.
    """
    return {one: p.committed.bytes for one, p in runner.slot.partitions.items()}


def headroom_s(partition: CopyPartition, now_ms: int, unread_s: float = 0.0) -> float | None:
    """Seconds until retention reaches the oldest record that is not copied; None: not known.

    The age of that record is at most that of the last one copied, or of the first that came
    (timestamps grow), so this is the least that is left. Where nothing waited when the source was
    last read, `unread_s` ago, what came since is no older than that. As long as most of the time is
    left nothing is near, however short it is: a live copy has always a record that just came.
    """
    retention = partition.entry.source_retention_ms
    if retention is None:
        return None
    if retention < 0:
        return NO_RETENTION_S
    if partition.has_work:
        reached = max(partition.first_timestamp, partition.last_timestamp)
        return None if reached < 0 else _left_s(retention, now_ms - reached)
    is_active = partition.fault is None and partition.entry.is_active
    if partition.source.last_stable < 0 or not is_active:
        return None
    return _left_s(retention, unread_s * 1000)


def _away_s(partition: CopyPartition, now: float) -> float:
    """Seconds since its source broker answered; 0 while it does."""
    return 0.0 if partition.away_since is None else now - partition.away_since


def _left_s(retention_ms: int, age_ms: float) -> float:
    is_near = age_ms > retention_ms * FRESH
    return (retention_ms - age_ms) / 1000 if is_near else NO_RETENTION_S


class Gauges:
    """Numbers that are computed when they are asked for, of the slots that are ours to tell of.

    That nobody has a slot must be seen: `ours` are those that were lost, too, and `links` those
    that have something to copy, by us or others. `surely` are those that no other worker copies:
    what is summed over workers is told of these.
    """

    def __init__(
        self,
        runners: Callable[[], Iterable[SlotRunner]],
        surely: Callable[[], Iterable[SlotRunner]],
        ours: Callable[[], Iterable[SlotRunner]],
        links: Callable[[], Iterable[Link]],
    ) -> None:
        self._runners, self._surely, self._ours, self._links = runners, surely, ours, links

    def register(self, metrics: Metrics) -> None:
        """Have them asked at each scrape."""
        metrics.on_scrape(names.SINCE_PROGRESS, self.since_progress)
        metrics.on_scrape(names.PARTITIONS, self.partitions)
        metrics.on_scrape(names.FAULTED, self.faulted)
        metrics.on_scrape(names.RECORD_LAG, self.record_lag)
        metrics.on_scrape(names.RECORD_LAG_UNKNOWN, self.record_lag_unknown)
        metrics.on_scrape(names.RETENTION_HEADROOM, self.headroom)
        metrics.on_scrape(names.SLOTS_OWNED, self.owned)

    def since_progress(self) -> Iterator[tuple[Labels, float]]:
        """Seconds since a slot with work last moved, by link and slot."""
        for runner in self._runners():
            now = runner.clock.monotonic()
            if runner.untaken.since is None:
                meant = (p for p in partitions_of(runner) if p.entry.is_active)
                waits = [_stood_s(p, now) for p in meant if p.has_work and p.fault is None]
            else:  # what waits at the source is not seen then
                is_meant = any(entry.is_active for entry in runner.entries.values())
                waits = [untaken_s(runner, now)] if is_meant else []
            yield (str(runner.link), str(runner.number)), max(waits, default=0.0)

    def partitions(self) -> Iterator[tuple[Labels, float]]:
        """Partitions by link and state."""
        tally: Tally[Labels] = Tally()
        for runner in self._surely():
            for partition in partitions_of(runner):
                tally[str(runner.link), state_word(runner, partition)] += 1
        yield from tally.items()

    def faulted(self) -> Iterator[tuple[Labels, float]]:
        """Partitions that stand still, by link and reason."""
        tally: Tally[Labels] = Tally()
        for runner in self._surely():
            for partition in partitions_of(runner):
                fault = standing(partition)
                if fault is not None:
                    tally[str(runner.link), str(fault.reason)] += 1
        yield from tally.items()

    def record_lag(self) -> Iterator[tuple[Labels, float]]:
        """Source offsets not yet copied, by link and topic; of a topic with one of which it is not
        known none are told: a sum of the others would pass for its lag.
        """
        behind, unknown = self._lags()
        yield from ((key, count) for key, count in behind.items() if not unknown[key])

    def record_lag_unknown(self) -> Iterator[tuple[Labels, float]]:
        """Partitions of which it is not known, by link and topic: while there are any, what other
        workers tell of theirs is not the lag of the topic, nor of the link.
        """
        _, unknown = self._lags()
        yield from unknown.items()

    def _lags(self) -> tuple[Tally[Labels], Tally[Labels]]:
        """Offsets behind that are known, and partitions of which they are not."""
        behind: Tally[Labels] = Tally()
        unknown: Tally[Labels] = Tally()
        for runner in self._surely():
            link, found = str(runner.link), partitions_of(runner)
            for p in found:
                key, offsets = (link, p.entry.source_topic), lag(runner, p)
                behind[key] += offsets or 0
                unknown[key] += offsets is None
            for identity in runner.entries.keys() - {p.identity for p in found}:
                unknown[link, runner.entries[identity].source_topic] += 1
        return behind, unknown

    def headroom(self) -> Iterator[tuple[Labels, float]]:
        """The least headroom of each link that is known."""
        least: dict[Labels, float] = {}
        for runner in self._runners():
            now_ms, now = runner.clock.now_ms(), runner.clock.monotonic()
            key, unread_s = (str(runner.link),), untaken_s(runner, now)
            for partition in partitions_of(runner):
                left = headroom_s(partition, now_ms, max(unread_s, _away_s(partition, now)))
                if left is not None:
                    least[key] = min(least.get(key, NO_RETENTION_S), left)
        yield from least.items()

    def owned(self) -> Iterator[tuple[Labels, float]]:
        """Slots that copy, by link."""
        tally: Tally[Labels] = Tally({(str(link),): 0 for link in self._links()})
        for runner in self._ours():
            tally[(str(runner.link),)] += int(runner.state == SlotState.COPYING)
        yield from tally.items()


def limit(runner: SlotRunner) -> Found:
    """What limits the slot, with its last trouble; first of all, that it is not taken."""
    if runner.untaken.since is not None:
        return Found(Limit.UNTAKEN, f"the slot is not copied: {runner.trouble or runner.state}")
    limits, why = runner.limits.found()
    return Found(limits, f"{why}; trouble: {runner.trouble}" if runner.trouble else why)


def status(runners: Iterable[SlotRunner]) -> list[dict[str, object]]:
    """Each slot for `/status`: enough to see what stands where and why."""
    return [_status(runner) for runner in runners]


def _status(runner: SlotRunner) -> dict[str, object]:
    partitions = partitions_of(runner)
    lags = [lag(runner, partition) for partition in partitions]
    return {
        "slot": runner.number,
        "link": str(runner.link),
        "state": str(runner.state),
        "trouble": runner.trouble,
        **limit(runner)._asdict(),
        "partitions": len(runner.slot.partitions),
        "assigned": len(runner.entries),
        "from_replicas": sum(p.replica is not None for p in runner.slot.partitions.values()),
        "lag_records": sum(each for each in lags if each is not None),
        "lag_unknown": lags.count(None),
        "faults": [
            {
                "topic": p.entry.source_topic,
                "partition": p.identity.partition,
                "fault": str(standing(p)),
            }
            for p in partitions
            if standing(p) is not None
        ],
    }
