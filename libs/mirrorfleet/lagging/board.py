"""All partitions that one instance watches: what is fed, who is looked at, what is to be told.

Slots come and go with the instance's share of the progress topic. What belongs to a slot that is
held is looked at once a second; a sample is due when its verdict changed or its time has come.
Silence is measured by our clock, from when a word came, and only while we listened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from mirrorfleet.core.ids import Link, PartitionIdentity, SlotNumber, TopicPartition
from mirrorfleet.lagging.ends import CLOCK_STEP_MS
from mirrorfleet.lagging.forecast import eased
from mirrorfleet.lagging.hearing import Hearing
from mirrorfleet.lagging.partition import PartitionLag
from mirrorfleet.lagging.verdict import Limits
from mirrorfleet.records.events import Event, EventKind
from mirrorfleet.records.progress import WAITING
from mirrorfleet.records.samples import HOLDS_MS, Verdict, sample_key

if TYPE_CHECKING:
    from mirrorfleet.lagging.partition import Standing
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.progress import Progress
    from mirrorfleet.records.samples import Sample

_EARLY_MS: Final = 30_000
"""The next sample of an idle partition comes so long before the last one counts no more."""
IDLE_TIMES: Final = 6
"""A partition in which nothing happens is sampled so much less often."""
SAMPLES_S: Final = 500
"""Samples a second at most, changes apart: with 10,000 partitions each has one in 20 s."""
ALONE: Final = 20
"""Equal changes of one topic at one look that are told one by one; more are told as one."""


class Change(NamedTuple):
    """A verdict that changed, with both sides as told."""

    lag: PartitionLag
    old: Verdict
    new: Verdict
    rule: str


class Place(NamedTuple):
    """Where a snapshot lies in its partition, and the timestamp that it has there."""

    offset: int
    time_ms: int


@dataclass(slots=True)
class Told:
    """What one look at a slot gives to tell."""

    samples: list[Sample] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)


class Board:
    """The partitions by slot."""

    def __init__(self, limits: Limits, *, sample_ms: int, look_ms: int = 1_000) -> None:
        self.limits = limits
        self.hearing = Hearing()
        self.propagation: dict[Link, int] = {}
        """Milliseconds that the last heartbeat took; absent when none came lately, or from ahead of
        our clock."""
        self._sample_ms, self._look_ms = sample_ms, look_ms
        self._wanted: dict[SlotNumber, dict[PartitionIdentity, CatalogPartition]] = {}
        self._slots: dict[SlotNumber, dict[PartitionIdentity, PartitionLag]] = {}
        self._born_ms: dict[PartitionIdentity, int] = {}
        self._heard: dict[SlotNumber, tuple[Progress, Place]] = {}
        self._awake_ms: int | None = None
        self._woke_ms = 0
        """Before this we did not listen."""

    # -- what is watched

    @property
    def slots(self) -> list[SlotNumber]:
        """The slots that are held."""
        return list(self._slots)

    def hold(self, slot: SlotNumber, before: Iterable[Sample], now_ms: int) -> None:
        """Watch a slot; `before` is what was told of it lately, oldest first."""
        told = {sample_key(one.link, one.topic, one.partition): one for one in before}
        self.hearing.forget(slot)
        self._slots[slot] = {}
        self._fill(slot, now_ms, told)  # what is left is of topics that are gone, or made again

    def drop(self, slot: SlotNumber) -> None:
        """Watch a slot no more: another instance does."""
        for known in self._slots.pop(slot, {}):
            self._born_ms.pop(known, None)
        self.hearing.forget(slot)
        self._heard.pop(slot, None)

    def want(self, entries: Iterable[CatalogPartition], now_ms: int) -> None:
        """What the catalog says is copied now."""
        wanted: dict[SlotNumber, dict[PartitionIdentity, CatalogPartition]] = {}
        for entry in entries:
            wanted.setdefault(entry.slot, {})[entry.identity] = entry
        self._wanted = wanted
        for slot in self._slots:
            self._fill(slot, now_ms)

    def _fill(
        self, slot: SlotNumber, now_ms: int, before: Mapping[bytes, Sample] | None = None
    ) -> None:
        wanted, held = self._wanted.get(slot, {}), self._slots[slot]
        for identity in [known for known in held if known not in wanted]:
            del held[identity], self._born_ms[identity]
        for identity, entry in wanted.items():
            if identity in held:
                held[identity].entry = entry
                continue
            lag = held[identity] = PartitionLag(entry)
            self._born_ms[identity] = now_ms
            key = sample_key(entry.link, entry.source_topic, identity.partition)
            if before and key in before:
                lag.restored(before[key])
        if slot in self._heard:
            self._feed(held, *self._heard[slot], now_ms)

    # -- what is fed

    def awake(self, now_ms: int) -> None:
        """We are at work; call it before each look, so that a pause is seen as one.

        What was said while the process stood still, or our clock jumped, is still to be read.
        """
        if self._awake_ms is not None:
            paused_ms = now_ms - self._awake_ms - self._look_ms
            if now_ms < self._awake_ms:
                self._set_back(now_ms)
            elif paused_ms > self.limits.silent_ms // 2:
                self._woke_ms = now_ms
        self._awake_ms = now_ms

    def _set_back(self, now_ms: int) -> None:
        """Our clock was: nothing has happened in what is the future now."""
        self._woke_ms = min(self._woke_ms, now_ms)
        self._born_ms = {known: min(born, now_ms) for known, born in self._born_ms.items()}
        self._heard = {
            slot: (replace(said, time_ms=min(said.time_ms, now_ms)), place)
            for slot, (said, place) in self._heard.items()
        }

    def heard(self, progress: Progress, now_ms: int, place: Place) -> None:
        """A snapshot of a slot, with the time at which we heard it as its time.

        One of a slot that is not held is none, nor one that comes again: the log's order counts,
        because owners' clocks differ. A topic that was made anew begins at 0, at a later time.
        """
        held, last = self._slots.get(progress.slot), self._heard.get(progress.slot)
        if held is None:
            return
        if last is not None and place.offset <= last[1].offset and place.time_ms <= last[1].time_ms:
            return
        self._heard[progress.slot] = progress, place
        self._feed(held, progress, place, now_ms)

    def _feed(
        self,
        held: dict[PartitionIdentity, PartitionLag],
        progress: Progress,
        place: Place,
        now_ms: int,
    ) -> None:
        for partition in progress.partitions:
            lag = held.get(partition.identity)
            if lag is not None:
                lag.reported(partition, progress.time_ms, now_ms, stored_ms=place.time_ms)
        for lag in held.values():
            lag.slot_spoke(progress.trouble, progress.time_ms)

    # -- what is found

    def __iter__(self) -> Iterator[PartitionLag]:
        """Every partition that is watched."""
        for held in self._slots.values():
            yield from held.values()

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))

    def by_source(self, link: Link) -> dict[TopicPartition, PartitionLag]:
        """The partitions of a link by their name at the source."""
        return {lag.entry.source: lag for lag in self if lag.entry.link == link}

    def judged(self) -> list[tuple[PartitionLag, Standing]]:
        """Partitions that were looked at, the worst first."""
        found = [(lag, lag.standing) for lag in self if lag.standing is not None]
        found.sort(key=lambda each: (-each[1].verdict.rank, -(each[1].time_lag_ms or 0)))
        return found

    def heard_ms(self, link: Link) -> int | None:
        """When a worker of the link spoke last; None when none of its slots was heard."""
        found = [lag.heard_ms for lag in self if lag.entry.link == link and lag.heard_ms]
        return max(found, default=None)

    def ease(self) -> None:
        """What backlogs of each worker get from one another; before a round of looks."""
        by_owner: dict[str, list[PartitionLag]] = {}
        for slot, (said, _) in self._heard.items():
            by_owner.setdefault(said.owner, []).extend(self._slots[slot].values())
        for lags in by_owner.values():
            ease(lags)

    def look(self, slot: SlotNumber, now_ms: int) -> Told:
        """Judge the partitions of a slot; what is to be told counts as told."""
        told = Told()
        if self.hearing.lacks(slot):
            return told  # its worker may have said what would make another verdict
        period_ms = max(self._sample_ms, len(self) * 1000 // SAMPLES_S)
        for identity, lag in self._slots.get(slot, {}).items():
            listened_ms = now_ms - max(self._born_ms[identity], self._woke_ms)
            if not self._is_deaf(lag, now_ms, listened_ms):
                self._look(lag, now_ms, period_ms, told)
        return told

    def _is_deaf(self, lag: PartitionLag, now_ms: int, listened_ms: int) -> bool:
        """Just begun: it would be judged by what was not asked or not read yet."""
        limits, heard_ms, seen_ms = self.limits, lag.heard_ms, lag.ends.seen_ms
        if heard_ms is None or seen_ms is None:
            return listened_ms < limits.unseen_ms
        silent, unseen = now_ms - heard_ms > limits.silent_ms, now_ms - seen_ms > limits.unseen_ms
        return (silent and listened_ms < limits.silent_ms) or (
            unseen and listened_ms < limits.unseen_ms
        )

    def _look(self, lag: PartitionLag, now_ms: int, period_ms: int, told: Told) -> None:
        is_blind = self.hearing.is_blind(lag.entry.slot)
        standing = lag.look(now_ms, self.limits, is_blind=is_blind)
        old, new = lag.sampled_verdict, standing.verdict
        passed = standing.as_of_ms - lag.sampled_ms
        if new is Verdict.IDLE:
            period_ms = min(period_ms * IDLE_TIMES, HOLDS_MS - _EARLY_MS)
        if old is new and -CLOCK_STEP_MS < passed < period_ms:
            return
        if -CLOCK_STEP_MS < passed <= 0:
            return  # the same moment was told before
        told.samples.append(lag.sample(standing, self.propagation.get(lag.entry.link)))
        lag.sampled_ms, lag.sampled_verdict = standing.as_of_ms, new
        if old is not None and old is not new and not (old.fine and new.fine):
            told.changes.append(Change(lag, old, new, standing.rule))


def ease(lags: Sequence[PartitionLag]) -> None:
    """Backlogs of one worker: what one needs no more goes to those that wait first, else to all."""
    waits = any(lag.progress is not None and lag.progress.state == WAITING for lag in lags)
    for lag in lags:
        lag.eased = 1.0
    behind = [(lag, backlog) for lag in lags if (backlog := lag.backlog)]
    if not waits:
        shares = eased([backlog for _, backlog in behind])
        for (lag, _), share in zip(behind, shares, strict=True):
            lag.eased = share


def events_of(changes: Iterable[Change], writer: str, now_ms: int) -> list[Event]:
    """Changes for the ledger: many equal ones of a topic (a mirror that stops) as one."""
    groups: dict[tuple[Link, str, Verdict, Verdict], list[Change]] = {}
    for change in changes:
        entry = change.lag.entry
        key = (entry.link, entry.source_topic, change.old, change.new)
        groups.setdefault(key, []).append(change)
    found: list[Event] = []
    for (link, topic, old, new), alike in groups.items():
        together = len(alike) > ALONE
        for change in alike[:1] if together else alike:
            more = f" (so {len(alike)} partitions)" if together else ""
            event = Event(
                kind=EventKind.VERDICT_CHANGED,
                time_ms=now_ms,
                writer=writer,
                detail=f"{old} -> {new}: {change.rule}{more}",
                link=link,
                topic=topic,
                partition=None if together else change.lag.entry.identity.partition,
            )
            found.append(event)
    return found
