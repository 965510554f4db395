"""Judging a copy: read both sides of every pair, compare, decide.

Partitions are taken in portions, so that memory follows the largest portion and not the run. A
cluster that cannot be read makes the verdict UNKNOWN, never an exception.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from tests.faultkit.waiting import NotInTimeError, wait_until
from tests.judge.compare import Anomaly, Kind, compare
from tests.judge.difference import difference
from tests.judge.log import Log
from tests.judge.reading import (
    ANSWERS,
    At,
    ClusterAccess,
    Ends,
    Isolation,
    Order,
    Reading,
    ReadingError,
    TimestampRule,
    Until,
    ends_of,
    is_append_time,
    partitions_of,
    read_logs,
    read_one,
)
from tests.judge.uncommitted import seen_twice
from tests.judge.verdict import Demands, Evidence, Finding, Report, decide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PORTION_RECORDS = 2_000_000
"""Most source offsets of a portion, unless one partition alone has more: 24 bytes each, 3 times."""

PORTION_PARTITIONS = 200
"""Most partitions read at once by one consumer."""

EXPLAINED = 5
"""Changed records of a partition that are read again to say in which field."""


MISSING = Reading(Log(), Ends(0, 0), finished=True)
"""What is read of a partition that does not exist."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A source topic and what should be its copy."""

    source: str
    target: str

    @classmethod
    def parse(cls, text: str) -> Pair:
        """Read `orders=east.orders`."""
        source, equals, target = text.partition("=")
        if not (source and equals and target):
            raise ValueError(f"a pair is SOURCE=TARGET, this is {text!r}")
        return cls(source, target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """What is to be judged.

    `starts`: source offsets at which copying began, where not at the beginning. `patience_s`: how
    long the target may stand still before what is missing counts as not seen.

    Where history was lost, the target must be `earlier` (what the source had, read before it lost
    it), then what the source has now from its start on, without `gaps` [first, end). Each range is
    the ledger's, and is taken at its word: a record more or less is wrong, and so is a gap in
    which the source has nothing.
    """

    source: ClusterAccess
    target: ClusterAccess
    pairs: Sequence[Pair]
    starts: Mapping[At, int] = field(default_factory=dict)
    earlier: Mapping[At, Log] = field(default_factory=dict)
    gaps: Mapping[At, Sequence[tuple[int, int]]] = field(default_factory=dict)
    patience_s: float = 30.0


class _Task(NamedTuple):
    """One partition to compare; the target topic may lack it."""

    source: At
    target: At
    exists: bool
    rules: tuple[TimestampRule, TimestampRule]  # for the source, for the target


def judge(
    copy: Copy,
    *,
    demands: Demands | None = None,
    evidence: Sequence[Evidence] = (),
    ran_s: float | None = None,
) -> Report:
    """Compare every record of every pair, once copying has come to an end, and decide."""
    demands = demands or Demands()
    findings: list[Finding] = []
    doubts: list[str] = []
    try:
        tasks = _tasks(copy, doubts)
        doubts += _left_open(copy, [t.source for t in tasks if t.source in demands.counted])
        for portion in _portions(copy, tasks):
            findings += _judged(copy, portion)
        findings = _looked_at_again(copy, findings)
    except ReadingError as error:
        doubts.append(str(error))
    return decide(
        findings,
        demands=demands,
        ran_s=ran_s,
        evidence=evidence,
        doubts=doubts,
    )


def _tasks(copy: Copy, doubts: list[str]) -> list[_Task]:
    sources = partitions_of(copy.source, [pair.source for pair in copy.pairs])
    targets = _await_targets(copy, sources)
    doubts += [f"{p.source}: no such source topic" for p in copy.pairs if p.source not in sources]
    tasks: list[_Task] = []
    for pair in copy.pairs:
        numbers = set(sources.get(pair.source, ()))
        there = set(targets.get(pair.target, ()))
        rules = (TimestampRule.AS_CREATE, TimestampRule.SEEN)
        if there and is_append_time(copy.target, pair.target):
            rules = (TimestampRule.IGNORED, TimestampRule.IGNORED)
        tasks += [
            _Task(At(pair.source, n), At(pair.target, n), n in there, rules)
            for n in sorted(numbers)
        ]
        for beyond in sorted(there - numbers) if numbers else ():
            doubts.append(f"{pair.target}-{beyond}: no such source partition")
    return tasks


def _await_targets(copy: Copy, sources: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Wait for target topics and partitions that are still to be created."""
    pairs = [pair for pair in copy.pairs if pair.source in sources]

    def look() -> dict[str, list[int]] | None:
        found = partitions_of(copy.target, [pair.target for pair in pairs])
        short = any(len(found.get(p.target, ())) < len(sources[p.source]) for p in pairs)
        return None if short else found

    try:
        return wait_until(look, deadline_s=copy.patience_s, what="target partitions") or {}
    except NotInTimeError:
        return partitions_of(copy.target, [pair.target for pair in pairs])


def _left_open(copy: Copy, ended: Sequence[At]) -> list[str]:
    """Wait for the last markers where whoever wrote has ended; say where one never comes.

    A source hands out nothing from there on, so what lies behind is compared by nobody.
    """

    def look() -> list[At]:
        found = ends_of(copy.source, ended)
        return [at for at, ends in found.items() if ends.committed != ends.uncommitted]

    with suppress(NotInTimeError):
        wait_until(lambda: not look(), deadline_s=copy.patience_s, what="the last markers")
    return [f"{at.topic}-{at.partition}: a transaction is open in the source" for at in look()]


def _portions(copy: Copy, tasks: Sequence[_Task]) -> Iterator[list[_Task]]:
    ends = ends_of(copy.source, [task.source for task in tasks])
    portion: list[_Task] = []
    records = 0
    for task in tasks:
        size = ends[task.source].uncommitted
        full = records + size > PORTION_RECORDS or len(portion) == PORTION_PARTITIONS
        if portion and (full or portion[0].rules != task.rules):
            yield portion
            portion, records = [], 0
        portion.append(task)
        records += size
    if portion:
        yield portion


def _looked_at_again(copy: Copy, findings: Sequence[Finding]) -> list[Finding]:
    """Doubt copies that have grown: what is repeated while others are judged is seen by nobody."""
    known = {
        At(found.target_topic, found.partition): found.target_end
        for found in findings
        if found.target_end is not None
    }
    doubted = {At(found.target_topic, found.partition) for found in findings if found.doubts}
    now = ends_of(copy.target, list(known))
    grown = {
        at: f"the target grew after it was judged, from {end} to {now[at].uncommitted}"
        for at, end in known.items()
        # what is open there now, and was not then, may be committed yet
        if now[at].committed != end or (now[at].uncommitted != end and at not in doubted)
    }
    places = [At(found.target_topic, found.partition) for found in findings]
    return [
        replace(found, doubts=(*found.doubts, grown[at])) if at in grown else found
        for at, found in zip(places, findings, strict=True)
    ]


def _judged(copy: Copy, portion: Sequence[_Task]) -> list[Finding]:
    """Judge a portion; a partition whose records are not the same on both sides again, alone.

    Each time its answers end somewhere else (`reading.ANSWERS`): a broker that hands out what was
    aborted does so for one of them, what is lost or too much is so in all. What is committed is in
    every answer, so of two readings of a side the shorter one is right, and none is agreed to that
    has more than one before.
    """
    found = _judge_portion(copy, portion)
    for number, task in enumerate(portion):
        for answer_bytes in ANSWERS:
            if _is_uneven(before := found[number]):
                try:
                    (again,) = _judge_portion(copy, [task], answer_bytes)
                except ReadingError as error:  # what was found stays found
                    found[number] = replace(before, doubts=(*before.doubts, str(error)))
                    break
                # a reading that is in doubt itself, as one that ran out of patience, shows nothing
                is_better = _is_within(again, before) and not again.doubts
                found[number] = again if is_better else before
    return found


def _is_within(again: Finding, before: Finding) -> bool:
    return (
        again.source_records <= before.source_records
        and again.target_records <= before.target_records
    )


def _is_uneven(finding: Finding) -> bool:
    """Also of what is there twice: a copy that was aborted and sent again, handed out."""
    kinds = {anomaly.kind for anomaly in finding.anomalies}
    return not kinds.isdisjoint({Kind.LOST, Kind.EXTRA, Kind.REPEATED})


def _judge_portion(
    copy: Copy, portion: Sequence[_Task], answer_bytes: int = ANSWERS[0]
) -> list[Finding]:
    """Read a portion three times (source; target committed; target uncommitted) and compare."""
    source_rule, target_rule = portion[0].rules
    committed = Order(
        isolation=Isolation.COMMITTED, timestamps=source_rule, answer_bytes=answer_bytes
    )
    truth = read_logs(
        copy.source, [task.source for task in portion], replace(committed, start=copy.starts)
    )
    idle = {at: _idle_gaps(copy, at, reading.log) for at, reading in truth.items()}
    truth = {at: _expected(copy, at, reading) for at, reading in truth.items()}
    wanted = {task.target: len(truth[task.source].log) for task in portion if task.exists}
    copies = read_logs(
        copy.target,
        list(wanted),
        replace(
            committed,
            timestamps=target_rule,
            until=Until.SETTLED,
            at_least=wanted,
            patience_s=copy.patience_s,
        ),
    )
    visible = read_logs(
        copy.target, list(wanted), Order(isolation=Isolation.UNCOMMITTED, timestamps=target_rule)
    )
    grown = _grown(copy, truth, copies)
    findings: list[Finding] = []
    for task in portion:
        known = _unread(task, truth[task.source], grown)
        known = replace(known, doubts=known.doubts + idle[task.source])
        made = copies.get(task.target, MISSING)
        finding = _compared(copy, known, truth[task.source].log, made)
        if task.exists:
            twice = seen_twice(made.log, visible[task.target].log)
            finding = replace(finding, uncommitted=twice, target_end=made.ends.committed)
        findings.append(finding)
    return findings


def _expected(copy: Copy, at: At, now: Reading) -> Reading:
    """What the target must hold: history that is gone, then what there is, without the gaps."""
    log = now.log
    for first, end in copy.gaps.get(at, ()):
        log = log.without(first, end)
    return now._replace(log=copy.earlier.get(at, Log()).followed_by(log))


def _idle_gaps(copy: Copy, at: At, log: Log) -> tuple[str, ...]:
    """Accepted gaps that explain nothing, because the source has no record there."""
    return tuple(
        f"the accepted gap [{first}, {end}) holds no record"
        for first, end in copy.gaps.get(at, ())
        if not len(log.between(first, end))
    )


def history(access: ClusterAccess, topic: str) -> dict[At, Log]:
    """What a topic holds now, for the day when it does not any more."""
    numbers = partitions_of(access, [topic]).get(topic, [])
    order = Order(isolation=Isolation.COMMITTED, timestamps=TimestampRule.AS_CREATE)
    readings = read_logs(access, [At(topic, number) for number in numbers], order)
    return {at: reading.log for at, reading in readings.items()}


def _grown(copy: Copy, *readings: Mapping[At, Reading]) -> dict[At, str]:
    """Say of which partitions records came while they were compared."""
    grown: dict[At, str] = {}
    for name, access, read in zip(
        ("source", "target"), (copy.source, copy.target), readings, strict=True
    ):
        now = ends_of(access, list(read))
        for at, reading in read.items():
            if now[at].committed != reading.ends.committed:
                grown[at] = f"the {name} grew while it was judged"
    return grown


def _unread(task: _Task, truth: Reading, grown: Mapping[At, str]) -> Finding:
    """Say what is known before the target's records are looked at."""
    doubts = [grown[at] for at in (task.source, task.target) if at in grown]
    if not truth.finished:
        doubts.append("the source could not be read to its end")
    if len(truth.log) and not task.exists:
        doubts.append("the target has no such partition")
    return Finding(
        source_topic=task.source.topic,
        target_topic=task.target.topic,
        partition=task.source.partition,
        source_records=len(truth.log),
        target_records=0,
        doubts=tuple(doubts),
    )


def _compared(copy: Copy, known: Finding, truth: Log, made: Reading) -> Finding:
    doubts = list(known.doubts)
    if made.ends.committed != made.ends.uncommitted:
        doubts.append("a transaction is still open in the target")
    elif not made.finished and len(made.log) >= len(truth):  # else it says itself what is missing
        doubts.append("the target could not be read to its end")
    source = At(known.source_topic, known.partition)
    target = At(known.target_topic, known.partition)
    return replace(
        known,
        target_records=len(made.log),
        anomalies=tuple(_explained(copy, source, target, compare(truth, made.log))),
        doubts=tuple(doubts),
    )


def _explained(
    copy: Copy, source: At, target: At, anomalies: Sequence[Anomaly]
) -> Iterator[Anomaly]:
    """Add to the first changed records in which fields they changed."""
    left = 0 if source in copy.earlier else EXPLAINED  # an offset may mean two records then
    for anomaly in anomalies:
        if anomaly.kind is not Kind.CHANGED or not left or not anomaly.source or not anomaly.target:
            yield anomaly
            continue
        left -= 1
        try:
            one = read_one(copy.source, source, anomaly.source.first)
            other = read_one(copy.target, target, anomaly.target.first)
        except ReadingError:  # changed all the same
            yield anomaly
            continue
        yield replace(anomaly, difference=difference(one, other))
