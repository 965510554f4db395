"""Why a partition is where it is, and what to do next: in sentences, from a `Standing` alone.

`as_of_ms` is when its fleet was read last. `unread` says why it is not read any more, "" while it
is: then nothing is known of its workers, and nothing is to be done about them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mirrorfleet.copying.advice import advice
from mirrorfleet.copying.faults import FaultReason, standing_in
from mirrorfleet.records.catalog import CatalogState
from mirrorfleet.records.overview import why_untaken
from mirrorfleet.records.samples import FOREVER_MS, Verdict
from mirrorfleet.views.format import count, moment, plural, short, size, span
from mirrorfleet.views.models import LinkView, SegmentView, Step, Summary
from mirrorfleet.views.verdicts import Judge

if TYPE_CHECKING:
    from mirrorfleet.offsets.index import PartitionMap
    from mirrorfleet.records.progress import PartitionProgress
    from mirrorfleet.views.standing import Standing
    from mirrorfleet.views.told import Fleet

_VERDICT_WORDS: Final = {
    Verdict.IDLE: "idle",
    Verdict.OK: "well",
    Verdict.CATCHING_UP: "catching up",
    Verdict.BEHIND: "behind",
    Verdict.UNKNOWN: "unknown",
    Verdict.STUCK: "stuck",
    Verdict.STOPPED: "stopped",
    Verdict.FAULTED: "faulted",
}


_OF_A_LAG: Final = frozenset({Verdict.IDLE, Verdict.OK, Verdict.CATCHING_UP, Verdict.BEHIND})
"""What says how much there is to copy."""
_AT_A_RECORD: Final = frozenset(reason for reason in FaultReason if reason.at_a_record)


def not_read(fleet: Fleet) -> str:
    """What cannot be read, since when and why, "" when it can be; no full stop."""
    if not fleet.trouble:
        return ""
    since = "" if fleet.read_ms is None else f" since {moment(fleet.read_ms)} UTC"
    return f"{fleet.target} cannot be read{since}: {fleet.trouble}"


def headline(one: Standing, as_of_ms: int, unread: str) -> str:
    """The one sentence that stands first."""
    return f"As of {moment(as_of_ms)} UTC: {_headline(one)}" if unread else _headline(one)


def _headline(one: Standing) -> str:
    if one.lag_records is None and one.judged.verdict in _OF_A_LAG:
        return f"How far it is cannot be told: {one.judged.rule}."
    lag = plural(one.lag_records or 0, "record")
    match one.judged.verdict:
        case Verdict.FAULTED:
            return f"It stands still. {_fault(one)}"
        case Verdict.STOPPED:
            return f"Nobody copies it: {one.judged.rule}."
        case Verdict.STUCK:
            return f"It is stuck: {one.judged.rule}."
        case Verdict.UNKNOWN:
            return f"How far it is cannot be told: {one.judged.rule}."
        case Verdict.BEHIND:
            return f"It is behind by {lag}: {one.judged.rule}."
        case Verdict.CATCHING_UP:
            return f"It works off a backlog of {lag}; {_eta(one)}."
        case Verdict.IDLE:
            return "Everything is copied, and nothing new comes."
        case Verdict.OK:
            return (
                f"It copies live, {lag} behind the source."
                if one.lag_records
                else "Everything is copied, and records keep coming."
            )


def why(one: Standing, as_of_ms: int, unread: str) -> list[str]:
    """The facts behind it, the most telling first."""
    deaf = [f"{unread.rstrip('.')}. What follows was known then."] if unread else []
    known = [*_verdict(one, as_of_ms), *_place(one), *_source(one), *_work(one, as_of_ms)]
    return [*deaf, *known]


def steps(one: Standing, as_of_ms: int, unread: str) -> list[Step]:
    """What to do next; never empty."""
    if not unread:
        return _steps(one, as_of_ms)
    target = one.entry.link.target
    reach = Step(
        words=f"See whether {target} answers where this console runs, and ask for the fleet from"
        " another host: the console knows nothing of its workers now.",
        command=f"mirrorfleet status --target {target}",
    )
    return [reach, *_steps(one, as_of_ms)] if one.judged.verdict is Verdict.FAULTED else [reach]


def _steps(one: Standing, now_ms: int) -> list[Step]:
    entry, verdict = one.entry, one.judged.verdict
    target = entry.link.target
    if verdict is Verdict.FAULTED:
        look = Step(words="Look at the source records.", command=_inspect(one))
        return [Step(words=_help(one)), look]
    if entry.state is CatalogState.PAUSED:
        command = f"mirrorfleet resume {entry.source} --target {target} --from {entry.link.source}"
        return [Step(words="An operator has paused it. To let it go on:", command=command)]
    status = Step(words="See the whole fleet.", command=f"mirrorfleet status --target {target}")
    if why_untaken(one.of_slot, now_ms):
        doubt = "Look whether the target's coordinator answers, and at the log of the owner."
        return [Step(words=doubt), status]
    if one.is_unheard and (one.seen is None or one.is_silent):
        reach = "See whether all brokers of {} answer where this console runs; look from elsewhere."
        return [Step(words=reach.format(target), command=status.command)]
    if one.seen is None or one.is_silent:
        command = f"mirrorfleet run mirror --target {target}"
        return [
            Step(
                words="See whether a mirror worker of this fleet runs; start one.", command=command
            )
        ]
    if verdict in {Verdict.STUCK, Verdict.BEHIND, Verdict.UNKNOWN}:
        doubt = "Look whether both clusters answer, and at the log of the owner."
        return [Step(words=doubt), status]
    if one.judged.judge is Judge.OWNER:
        command = f"mirrorfleet run lag --target {target}"
        words = "Nothing is wrong. For time lag and trends, run the lag service."
        return [Step(words=words, command=command)]
    return [Step(words="Nothing: all is well here.")]


def segment_view(known: PartitionMap | None) -> SegmentView | None:
    """The end of the offset map; None when nothing was copied."""
    last = None if known is None else known.last
    if known is None or last is None:
        return None
    return SegmentView(
        source_offset=last[0],
        target_offset=last[1],
        copied_to=known.source_end,
        pieces=len(known),
    )


def segment_words(found: SegmentView | None, waiting: str) -> str:
    """The same in a sentence; `waiting` says how far the map is read, "" when it is."""
    if waiting:
        return f"The offset map is not known yet: {waiting}."
    if found is None:
        return "The offset map has nothing of it: no record was copied yet."
    return (
        f"The last copied record is source offset {count(found.source_offset)} and became target"
        f" offset {count(found.target_offset)}; the map knows the copy up to source offset"
        f" {count(found.copied_to)}, in {plural(found.pieces, 'stretch', 'stretches')}."
    )


def link_words(known: str, found: Summary) -> str:
    """How many partitions do how; `known` says why there is nothing to tell, "" otherwise."""
    if known:
        return known
    if not found.partitions:
        return "No topic is copied yet."
    if set(found.verdicts) <= {Verdict.IDLE, Verdict.OK}:
        return f"All is well: {_what(found)}."
    bad = sorted(found.verdicts.items(), key=lambda one: -one[0].rank)
    told = ", ".join(
        f"{count(number)} {_VERDICT_WORDS[verdict]}" for verdict, number in bad if not verdict.fine
    )
    return f"Of {_what(found)}: {told}."


def estate_words(links: list[LinkView]) -> str:
    """The first sentence of all."""
    if not links:
        return "No link is in this estate."
    bad = [one for one in links if not (one.known and one.summary.verdict.fine)]
    if not bad:
        every = "The link is well" if len(links) == 1 else f"All {len(links)} links are well"
        return f"{every}: {_what_all(links)}."
    names = ", ".join(f"{one.source} → {one.target}" for one in bad)
    more = f" {bad[0].words}" if len(bad) == 1 else ""
    return f"{len(bad)} of {plural(len(links), 'link')} to look at: {names}.{more}"


def _what(found: Summary) -> str:
    topics = plural(found.topics, "topic")
    return f"{plural(found.partitions, 'partition')} of {topics}"


def _what_all(links: list[LinkView]) -> str:
    partitions = sum(one.summary.partitions for one in links)
    rates = [one.summary.bytes_s for one in links if one.summary.bytes_s is not None]
    rate = f", {size(sum(rates))}/s" if rates else ""
    return f"{plural(partitions, 'partition')} copied{rate}"


def _verdict(one: Standing, now_ms: int) -> Iterator[str]:
    judged = one.judged
    ago = "" if judged.time_ms is None else f", {span(max(0, now_ms - judged.time_ms))} ago"
    yield f"Verdict {judged.verdict}: {judged.rule} (by {judged.judge}{ago})."
    if one.known is not None and one.known.fault and one.known.fault not in judged.rule:
        yield f"Fault: {one.known.fault}."
    if one.sample is not None and one.sample.time_lag_ms is not None:
        time_lag = one.sample.time_lag_ms
        if time_lag > 0:
            yield f"The next record to copy has been waiting at the source for {span(time_lag)}."


def _place(one: Standing) -> Iterator[str]:
    entry, known = one.entry, one.known
    if known is None:
        return
    if known.position is None:
        yield "Nobody knows which record is the next one to copy."
        return
    yield (
        f"The next record to copy is source offset {count(known.next_source)}; on the target it"
        f" will get offset {count(known.next_target)} of {entry.target_topic} or a later one."
    )
    yield (
        f"{plural(known.records, 'record')} ({size(known.bytes)}) were copied since copying of"
        f" these two topics began at {entry.start}."
    )


def _source(one: Standing) -> Iterator[str]:
    known = one.known
    if known is None:
        return
    if known.last_stable < 0:
        yield "Its owner does not read the source, so it does not know how far the source is."
        return
    yield _end(one, known)
    held = known.high_watermark - known.last_stable
    if held > 0:
        yield (
            f"{plural(held, 'more offset')} after it belong to transactions that are still open at"
            " the source; they are copied when those end."
        )
    yield _headroom(one, known)


def _end(one: Standing, known: PartitionProgress) -> str:
    readers, lag = "Committed readers of the source", known.lag_records
    if lag is None or one.is_silent:
        then = f"saw records up to offset {count(known.last_stable)} when its owner read last"
        if one.lag_records is None:
            return f"{readers} {then}; how much is left to copy is not known."
        return f"{readers} {then}; {plural(one.lag_records, 'offset')} to go, by the lag service."
    end = f"{readers} see records up to offset {count(known.last_stable)}"
    return f"{end}: {plural(lag, 'offset')} to go." if lag else f"{end}: nothing is left to copy."


def _headroom(one: Standing, known: PartitionProgress) -> str:
    above = known.next_source - known.log_start
    text = f"The source's log begins at {count(known.log_start)}, {count(above)} below the position"
    left = None if one.sample is None else one.sample.headroom_ms
    if left is None:
        return f"{text}."
    if left >= FOREVER_MS:
        return f"{text}; retention takes nothing."
    return f"{text}; retention reaches it in {span(left)} at the earliest."


def _work(one: Standing, now_ms: int) -> Iterator[str]:
    entry = one.entry
    snapshot = one.of_slot if one.seen is None else one.seen.snapshot
    if snapshot is None:
        nobody = (
            "of which nothing can be read here"
            if one.is_unheard
            else "which no worker has reported"
        )
        yield f"The catalog gives it to slot {entry.slot}, {nobody}."
        return
    yield (
        f"Slot {entry.slot} belongs to {snapshot.owner}, which is {snapshot.word} and reported"
        f" {span(max(0, now_ms - snapshot.time_ms))} ago."
    )
    if one.seen is None:
        return
    if one.rate is not None and one.rate.records_s > 0:
        yield f"It copies {short(one.rate.records_s)} records/s, {size(one.rate.bytes_s)}/s."
    else:
        at = moment(one.seen.partition.last_progress_ms)
        yield f"It copied, had nothing left to copy, or waited for its turn last at {at} UTC."


def _eta(one: Standing) -> str:
    return "when it is done is unknown" if one.eta_ms is None else f"done in {span(one.eta_ms)}"


def _fault(one: Standing) -> str:
    known = one.known
    fault = known.fault if known is not None and known.fault else one.judged.rule
    return f"{fault[:1].upper()}{fault[1:]}."


def _help(one: Standing) -> str:
    fault = "" if one.known is None else one.known.fault
    return (
        advice(fault, one.entry) or "Read the fault; its neighbours go on, and nothing is skipped."
    )


def _inspect(one: Standing) -> str:
    """Shows the record that is in the way, or the last batches where none is."""
    entry = one.entry
    reason, offset = standing_in("" if one.known is None else one.known.fault) or ("", -1)
    where = f" --from {offset} --limit 3" if reason in _AT_A_RECORD and offset >= 0 else ""
    return f"mirrorfleet inspect {entry.source} --cluster {entry.link.source}{where}"
