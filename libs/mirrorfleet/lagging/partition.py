"""The lag of one partition: fed with snapshots of the mirror and ends of the source, then judged.

    snapshot (about once a second)      end (about once a second)
        position p, heard at s              E, as of e
              └──────────────┬──────────────┘
                 as of s:  time lag = s - (when p became readable)
                           0 when the end e that was seen last is not above p

A fresh snapshot is judged as of when it came: by now the mirror is further. When snapshots stop
coming, the position stands, and the lag is as of now. All times are of our clock: a worker's may be
hours away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.lagging.ends import CLOCK_STEP_MS, EndHistory
from mirrorfleet.lagging.going import Going
from mirrorfleet.lagging.log_start import LogStart
from mirrorfleet.lagging.rate import GAIN_S, Gain, Rate
from mirrorfleet.lagging.verdict import Facts, Limits, judge
from mirrorfleet.records.progress import PAUSED, THROTTLED, WAITING
from mirrorfleet.records.samples import FOREVER_MS, Sample, Verdict

if TYPE_CHECKING:
    from mirrorfleet.lagging.forecast import Backlog
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.progress import PartitionProgress

LOOK_MS: Final = 1_500
"""Half of the longest look at the ends: what was seen carries the middle of its time, and may be as
much older where one broker kept the look waiting."""
FRESH_MS: Final = 3_000
"""A snapshot of this age is judged as of when it came; workers write one a second."""
RATE_S: Final = 10.0
IDLES: Final = frozenset({Verdict.STOPPED, Verdict.FAULTED, Verdict.UNKNOWN})
"""Not copied. What is stuck for seconds may wait for its turn among other backlogs."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What was found at the last look."""

    as_of_ms: int
    lag_records: int | None
    time_lag_ms: int | None
    verdict: Verdict
    rule: str


class PartitionLag:
    """One copied partition."""

    __slots__ = (
        "_bytes",
        "_came_ms",
        "_gain",
        "_going",
        "_held_before",
        "_held_ms",
        "_high",
        "_log_start",
        "_moved_ms",
        "_records",
        "_stood",
        "_waiting_ms",
        "eased",
        "ends",
        "entry",
        "heard_ms",
        "progress",
        "sampled_ms",
        "sampled_verdict",
        "standing",
        "trouble",
    )

    def __init__(self, entry: CatalogPartition) -> None:
        self.entry = entry
        self.ends = EndHistory()
        self.progress: PartitionProgress | None = None
        self.heard_ms: int | None = None
        """When the mirror spoke last."""
        self.trouble = ""
        """Why its slot is not copied."""
        self.standing: Standing | None = None
        self.sampled_ms = 0
        self.sampled_verdict: Verdict | None = None
        self.eased = 1.0
        """A backlog's time, when others of its worker end sooner, as a share of that without."""
        self._records, self._bytes = Rate(RATE_S), Rate(RATE_S)
        self._gain = Gain()
        self._log_start = LogStart()
        self._moved_ms: int | None = None
        self._came_ms: int | None = None
        """When we heard of the position first, by the clock by which ends are seen."""
        self._stood: tuple[int, int] | None = None
        """The position that an earlier process told last, and as of when."""
        self._waiting_ms: int | None = None
        self._held_ms: int | None = None
        """Since when a transaction at the source is open."""
        self._held_before: tuple[int, int] | None = None
        """The end that one held back for too long by the word of an earlier process, and when."""
        self._high: int | None = None
        """The high watermark that the mirror told last; a new owner has none before an answer."""
        self._going = Going()

    # -- what is fed

    def reported(
        self, progress: PartitionProgress, at_ms: int, now_ms: int, stored_ms: int | None = None
    ) -> None:
        """The mirror spoke at `at_ms`: `now_ms`, unless it was stored before we listened.

        `stored_ms`, by the broker's clock, is for rates: what waited for us comes in one moment.
        """
        before = self.progress
        if before is None and self._stood is not None and self._stood[0] == progress.next_source:
            self._came_ms = min(now_ms, self._stood[1])  # we are new, the position is not
        elif before is None or before.next_source != progress.next_source:
            self._came_ms = now_ms
        if before is None:
            self._moved_ms = progress.last_progress_ms
        elif before.next_source != progress.next_source or progress.state in {WAITING, THROTTLED}:
            self._moved_ms = at_ms  # to wait for its turn, or its throttle, is not to stand still
        self.ends.forget_below(progress.next_source)
        self.progress, self.heard_ms = progress, at_ms
        rated_ms = at_ms if stored_ms is None else stored_ms
        self._records.seen(progress.records, rated_ms)
        self._bytes.seen(progress.bytes, rated_ms)
        if progress.position is not None:
            self._gain.copied(progress.position, rated_ms)
        self._log_start.told(progress, rated_ms, at_ms)
        if progress.high_watermark >= 0:
            self._high = progress.high_watermark
            if not self._held():
                self._held_before = None
        self._held_ms = (self._held_ms or at_ms) if self._held() else None

    def slot_spoke(self, trouble: str, at_ms: int) -> None:
        """The owner of its slot spoke; one that cannot take it may know no partition."""
        self.trouble = trouble
        if trouble:
            self.heard_ms = at_ms

    def end_seen(self, end: int, at_ms: int) -> None:
        """The source's last stable offset, as a leader said it."""
        if self.ends.seen_ms is not None and at_ms < self.ends.seen_ms - CLOCK_STEP_MS:
            self._keep_ages(at_ms)  # our clock was set back, and no look has found it yet
        said, heard_ms = self.progress, self.heard_ms
        if self.ends.seen_ms is None and said is not None and heard_ms and said.lag_records == 0:
            self.ends.seen(said.next_source, min(heard_ms, at_ms))  # what came since is younger
        self.ends.seen(end, at_ms)
        if self._came_ms is not None:
            self._came_ms = min(self._came_ms, at_ms + CLOCK_STEP_MS)  # our clock was set back
        self._gain.appended(end, at_ms)
        self._waiting_ms = (self._waiting_ms or at_ms) if self._is_waiting(end) else None

    def restored(self, sample: Sample) -> None:
        """What an earlier process knew last: the first thing that is fed."""
        self.sampled_ms, self.sampled_verdict = sample.time_ms, sample.verdict
        self._stood = sample.next_source, sample.time_ms
        if sample.source_end is None:
            return
        if sample.verdict is Verdict.STUCK and sample.lag_records == 0:
            self._held_before = sample.source_end, sample.time_ms
        if sample.time_lag_ms and sample.next_source < sample.source_end:
            self._waiting_ms = sample.time_ms - sample.time_lag_ms
            self.ends.restore(sample.next_source, self._waiting_ms)
        if sample.lag_records is not None:  # else nobody had seen it then, maybe for hours
            self.ends.seen(sample.source_end, sample.time_ms)

    def _is_waiting(self, end: int) -> bool:
        return self.progress is not None and end > self.progress.next_source

    # -- what is found

    def look(self, now_ms: int, limits: Limits, *, is_blind: bool = False) -> Standing:
        """Judge it as of now, or as of the last word of the mirror when that is fresh."""
        self._forget_future(now_ms)
        as_of = self._as_of(now_ms)
        lag, time_lag = self._lag(as_of, now_ms - limits.fresh_ms)
        facts = self._facts(now_ms, lag, time_lag, limits)
        facts.is_blind = is_blind
        verdict, rule = judge(facts, limits)
        if is_blind and verdict is Verdict.UNKNOWN:
            lag = time_lag = None  # it may stand elsewhere by now
        if verdict.fine or verdict in IDLES or facts.unmoved_ms > 3 * GAIN_S * 1000:
            self._gain.stood()
        self.standing = Standing(as_of, lag, time_lag, verdict, rule)
        self._going.looked(as_of, lag, time_lag)
        return self.standing

    def sample(self, standing: Standing, propagation_ms: int | None) -> Sample:
        """The standing as a record; `propagation_ms` is the link's."""
        entry, said = self.entry, self.progress
        speaks = standing.as_of_ms == self.heard_ms and not self.trouble
        return Sample(
            time_ms=standing.as_of_ms,
            source=entry.link.source,
            target=entry.link.target,
            topic=entry.source_topic,
            partition=entry.identity.partition,
            target_topic=entry.target_topic,
            slot=entry.slot,
            state="" if said is None else said.state,
            lag_records=standing.lag_records,
            time_lag_ms=standing.time_lag_ms,
            propagation_ms=propagation_ms,
            backlog_age_ms=self._backlog_age(standing.as_of_ms),
            eta_ms=self.eta_ms,
            headroom_ms=self.headroom_ms,
            rate_records_s=(self._records.value or 0.0) if speaks else 0.0,
            rate_bytes_s=(self._bytes.value or 0.0) if speaks else 0.0,
            source_end=self.ends.end,
            next_source=SourceOffset(0) if said is None else said.next_source,
            verdict=standing.verdict,
            rule=standing.rule,
        )

    @property
    def eta_ms(self) -> int | None:
        """Until nothing waits, by the present rates; None when that is never, or not known."""
        standing, said = self.standing, self.progress
        if standing is None or standing.lag_records is None:
            return None
        if standing.verdict.fine:
            return 0
        silent = standing.verdict in {Verdict.STOPPED, Verdict.FAULTED, Verdict.STUCK}
        if silent or (said is not None and said.state == WAITING):
            return None
        found = self._gain.eta_ms(standing.lag_records)
        return None if found is None else round(found * self.eased)

    @property
    def backlog(self) -> Backlog | None:
        """What waits and becomes less, if only in turns; None where nothing does."""
        standing = self.standing
        if standing is None or standing.verdict.fine or not standing.lag_records:
            return None
        found = self._gain.backlog(standing.lag_records)
        return found if found.gain > 0 else None

    @property
    def headroom_ms(self) -> int | None:
        """Until retention reaches the next uncopied record, at least; FOREVER_MS for never."""
        standing = self.standing
        if standing is None:
            return None
        found: list[int] = []
        retention = self.entry.source_retention_ms
        if retention is not None and retention < 0:
            found.append(FOREVER_MS)
        elif retention is not None and standing.time_lag_ms is not None:
            # brokers delete by the dates of records, which may be older than they are readable
            age_ms = self._backlog_age(standing.as_of_ms) or 0
            found.append(retention - max(standing.time_lag_ms, age_ms))
        reached_ms = self._log_start_reaches_ms(standing)
        if reached_ms is not None:
            found.append(reached_ms)
        return max(0, min(found)) if found else None

    def _log_start_reaches_ms(self, standing: Standing) -> int | None:
        """Until the log's begin, where retention by size shows, has come to the position.

        Where nothing waits it may be there already: all that comes will lie above it.
        """
        said = self.progress
        if said is None or standing.lag_records == 0:
            return None
        return self._log_start.reaches_ms(said, standing.as_of_ms)

    def _forget_future(self, now_ms: int) -> None:
        """Our clock was set back: what is dated later would look fresh until then."""
        if self.heard_ms is not None:
            self.heard_ms = min(self.heard_ms, now_ms)
        if self._moved_ms is not None:
            self._moved_ms = min(self._moved_ms, now_ms)
        if self._waiting_ms is not None:
            self._waiting_ms = min(self._waiting_ms, now_ms)
        if self._held_ms is not None:
            self._held_ms = min(self._held_ms, now_ms)
        if self._held_before is not None:
            end, at_ms = self._held_before
            self._held_before = end, min(at_ms, now_ms)
        self._keep_ages(now_ms)

    def _keep_ages(self, now_ms: int) -> None:
        """Ends that look new would show that nothing waits, though no leader is seen.

        How far the clock went back tells the latest moment that is known from before.
        """
        seen, told = self.ends.seen_ms, self.standing
        if seen is None or seen <= now_ms:
            return
        back_ms = (seen if told is None else max(seen, told.as_of_ms)) - now_ms
        self.ends.set_back(back_ms)
        if self._came_ms is not None and self._came_ms > now_ms:
            self._came_ms -= back_ms

    def _as_of(self, now_ms: int) -> int:
        heard = self.heard_ms
        return now_ms if heard is None or now_ms - heard > FRESH_MS else min(heard, now_ms)

    def _lag(self, as_of: int, fresh_from: int) -> tuple[int | None, int | None]:
        """(offsets, ms); nothing known is None, and 0 only what was seen to be 0."""
        end, seen, said = self.ends.end, self.ends.seen_ms, self.progress
        position = None if said is None else said.position
        if end is None or seen is None or said is None or position is None:
            return None, None
        fresh = seen >= fresh_from
        if position >= end:
            return (0, 0) if fresh and not self._beyond() else (None, None)
        lag = end - position if fresh else None
        since = self.ends.readable_since(position)
        if since is not None and since > as_of:
            return (0, 0) if fresh else (None, None)
        begun = self.ends.begun_ms
        if since is None and said.oldest_uncopied_ms is not None and begun is not None:
            # older than our samples: the mirror has it in hand and knows its timestamp, which a
            # producer may have written with a clock that is ahead
            since = min(said.oldest_uncopied_ms, begun)
        return lag, None if since is None else max(0, as_of - since)

    def _beyond(self) -> int:
        """Offsets that the source lacks below the position; a position newer than the end is fine.

        Newer is one that moved since the end was seen, not one that was told again: what stands
        at a source that was cut is told each second. Both by our clock, whatever a mirror's says.
        """
        end, seen, said, came = self.ends.end, self.ends.seen_ms, self.progress, self._came_ms
        if end is None or seen is None or said is None or came is None:
            return 0
        if seen <= came + LOOK_MS:
            return 0
        return max(0, said.next_source - end)

    def _facts(self, now_ms: int, lag: int | None, time_lag: int | None, limits: Limits) -> Facts:
        said, ends = self.progress, self.ends
        active = self.entry.is_active
        since = max(self._moved_ms or 0, self._waiting_ms or 0)
        held = self._held()
        return Facts(
            state=PAUSED if not active else "" if said is None else said.state,
            fault="" if said is None else said.fault,
            trouble=self.trouble,
            silent_ms=None if self.heard_ms is None else max(0, now_ms - self.heard_ms),
            unseen_ms=None if ends.seen_ms is None else max(0, now_ms - ends.seen_ms),
            beyond=self._beyond(),
            lag_records=lag,
            time_lag_ms=time_lag,
            unmoved_ms=now_ms - since if self._waiting_ms is not None else 0,
            end_unmoved_ms=0 if ends.moved_ms is None else max(0, now_ms - ends.moved_ms),
            held_records=held,
            held_ms=self._held_for_ms(now_ms, limits) if held else 0,
            trend=self._going.where_to(lag, time_lag),
            before=self.sampled_verdict,
        )

    def _held(self) -> int:
        """Offsets of the source that no committed reader may have yet."""
        said = self.progress
        if said is None or self._high is None:
            return 0
        return max(0, self._high - max(self.ends.end or 0, said.next_source))

    def _held_for_ms(self, now_ms: int, limits: Limits) -> int:
        since = max(self._held_ms or 0, self.ends.moved_ms or 0)
        if self._held_before is not None and self._held_before[0] == self.ends.end:
            since = min(since, self._held_before[1] - limits.held_ms - 1)
        return max(0, now_ms - since)

    def _backlog_age(self, as_of: int) -> int | None:
        said = self.progress
        if said is None or said.oldest_uncopied_ms is None:
            return None
        return max(0, as_of - said.oldest_uncopied_ms)
