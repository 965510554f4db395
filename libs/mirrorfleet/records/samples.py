"""`__mirrorfleet.F.samples`: how far behind each copied partition is, and since when; 7 days. JSON.

    key        `east->west/orders/3`: link, source topic, partition
    value      the fields of `Sample`, with "v"
    partition  the slot

Written by `lag`: one sample a partition from time to time (seconds when it is behind, less often
when nothing happens) and one at each change of the verdict. A sample holds until the next one, for
`HOLDS_MS` at most.
None is "not known", never 0. An unknown version or a broken record is Skipped and counted by the
reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirrorfleet.core.errors import CorruptBatchError, UnknownVersionError
from mirrorfleet.core.ids import ClusterAlias, Link, SlotNumber, SourceOffset
from mirrorfleet.records.jsonvalue import Fields, to_json
from mirrorfleet.records.packing import Skipped

VERSION: Final = 1

HOLDS_MS: Final = 180_000
"""`lag` samples an idle partition every 30 s, and every 120 s when it watches 10,000 of them."""
FOREVER_MS: Final = 10 * 365 * 86_400_000
"""Headroom where nothing is ever deleted: ten years, so that a least over partitions works."""


class Verdict(StrEnum):
    """What is to be thought of a partition; worse ones later, so that the worst is `max` by rank.

    idle         everything is copied and nothing new comes
    ok           copied within the time that is allowed
    catching-up  behind, and the distance shrinks
    behind       behind, and the distance does not shrink
    stuck        records wait, the worker is alive, nothing moves
    stopped      nobody copies: paused, or the worker is silent
    faulted      the mirror stopped it, and says why
    unknown      something that is needed to judge cannot be seen
    """

    IDLE = "idle"
    OK = "ok"
    CATCHING_UP = "catching-up"
    BEHIND = "behind"
    UNKNOWN = "unknown"
    STUCK = "stuck"
    STOPPED = "stopped"
    FAULTED = "faulted"

    @property
    def rank(self) -> int:
        """0 is best."""
        return _RANKS[self]

    @property
    def fine(self) -> bool:
        """Whether nobody needs to look."""
        return self in {Verdict.IDLE, Verdict.OK}


_RANKS: Final = {verdict: rank for rank, verdict in enumerate(Verdict)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One partition as of `time_ms`, which is when `next_source` was true.

    Attributes:
        state: the mirror's word for it (live, catch-up, faulted, ...), "" when none was heard.
        lag_records: source offsets that a committed reader could still be given.
        time_lag_ms: since the next uncopied record could be read at the source; 0 with none.
        propagation_ms: what the last heartbeat took through the link, by two hosts' clocks.
        backlog_age_ms: age by timestamp of the oldest record that is fetched and not committed.
        eta_ms: until nothing is left, by the present rates; None when that is never.
        headroom_ms: until retention reaches the next uncopied record, at least.
        rate_records_s, rate_bytes_s: committed on the target.
        source_end: last stable offset of the source.
        rule: the rule that gave the verdict, in words.
        age_ms: of it when it was written, by its writer's clock: while the target takes no write it
            waits. None in what an older build wrote.
    """

    time_ms: int
    source: ClusterAlias
    target: ClusterAlias
    topic: str
    partition: int
    target_topic: str
    slot: SlotNumber
    state: str
    lag_records: int | None
    time_lag_ms: int | None
    propagation_ms: int | None
    backlog_age_ms: int | None
    eta_ms: int | None
    headroom_ms: int | None
    rate_records_s: float
    rate_bytes_s: float
    source_end: int | None
    next_source: SourceOffset
    verdict: Verdict
    rule: str
    age_ms: int | None = None

    @property
    def link(self) -> Link:
        """Both aliases."""
        return Link(self.source, self.target)


def sample_key(link: Link, topic: str, partition: int) -> bytes:
    """The key of a partition's samples."""
    return f"{link}/{topic}/{partition}".encode()


def encode(sample: Sample, written_ms: int | None = None) -> tuple[bytes, bytes]:
    """Key and value; with its age, where it is known when it is written."""
    value: dict[str, object] = {
        "v": VERSION,
        "time_ms": sample.time_ms,
        "source": sample.source,
        "target": sample.target,
        "topic": sample.topic,
        "partition": sample.partition,
        "target_topic": sample.target_topic,
        "slot": sample.slot,
        "state": sample.state,
        "lag_records": sample.lag_records,
        "time_lag_ms": sample.time_lag_ms,
        "propagation_ms": sample.propagation_ms,
        "backlog_age_ms": sample.backlog_age_ms,
        "eta_ms": sample.eta_ms,
        "headroom_ms": sample.headroom_ms,
        "rate_records_s": round(sample.rate_records_s, 3),
        "rate_bytes_s": round(sample.rate_bytes_s, 1),
        "source_end": sample.source_end,
        "next_source": sample.next_source,
        "verdict": sample.verdict,
        "rule": sample.rule,
        "age_ms": sample.age_ms if written_ms is None else max(0, written_ms - sample.time_ms),
    }
    return sample_key(sample.link, sample.topic, sample.partition), to_json(value)


def decode(
    key: bytes | None, value: bytes | None, *, heard_ms: int | None = None
) -> Sample | Skipped:
    """The sample; what cannot be read is Skipped, never raised.

    `heard_ms`, when the reader heard it, less its age then, takes the place of the writer's time,
    whose clock may be hours away.
    """
    if key is None or value is None:
        return Skipped("sample: no key or no value")
    try:
        fields = Fields.parse(value, "sample")
        fields.check_version(VERSION)
        return _sample(fields, heard_ms)
    except (UnknownVersionError, CorruptBatchError) as error:
        return Skipped(str(error))


def _sample(fields: Fields, heard_ms: int | None) -> Sample:
    time_ms, age_ms = fields.integer("time_ms"), fields.maybe_integer("age_ms")
    return Sample(
        time_ms=time_ms if heard_ms is None else heard_ms - (age_ms or 0),
        source=ClusterAlias(fields.text("source")),
        target=ClusterAlias(fields.text("target")),
        topic=fields.text("topic"),
        partition=fields.integer("partition"),
        target_topic=fields.text("target_topic"),
        slot=SlotNumber(fields.integer("slot")),
        state=fields.text("state"),
        lag_records=fields.maybe_integer("lag_records"),
        time_lag_ms=fields.maybe_integer("time_lag_ms"),
        propagation_ms=fields.maybe_integer("propagation_ms"),
        backlog_age_ms=fields.maybe_integer("backlog_age_ms"),
        eta_ms=fields.maybe_integer("eta_ms"),
        headroom_ms=fields.maybe_integer("headroom_ms"),
        rate_records_s=fields.number("rate_records_s"),
        rate_bytes_s=fields.number("rate_bytes_s"),
        source_end=fields.maybe_integer("source_end"),
        next_source=SourceOffset(fields.integer("next_source")),
        verdict=fields.choice("verdict", Verdict),
        rule=fields.text("rule"),
        age_ms=age_ms,
    )
