"""Whatever is in the log: committed records at and after the wanted offset arrive, once, in order.

The log is made and the copies are read by aiokafka. And whatever is done to the bytes, the engine
answers with a fault or a right copy.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.copybatch import FaultKind, NullKeys, Terms
from mirrorfleet.wire.engine import divide, merged, walk_fetched, without
from mirrorfleet.wire.merging import Merged
from tests.unit.wire.batches import (
    CODECS,
    TIME,
    Seen,
    batch_of,
    copied,
    fetched,
    golden,
    marker,
    patched,
    read,
    source_offsets,
)

CONTENT = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3).map(tuple)
TIMES = st.integers(-5_000, 5_000).map(lambda delta: TIME + delta)


class Log(NamedTuple):
    batches: list[bytes]
    records: list[Seen]
    aborted: list[tuple[int, int]]
    end: int


@st.composite
def runs(draw: st.DrawFn, first: int) -> tuple[list[Seen], int]:
    """Records with holes among them, and the offset after the batch."""
    at, records = first, []
    for _ in range(draw(st.integers(1, 6))):
        records.append(Seen(at, draw(TIMES), draw(CONTENT), draw(CONTENT), draw(HEADERS)))
        at += draw(st.sampled_from((1, 1, 1, 2, 5)))
    return records, at


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Batches of every sort: codecs, holes, append time, aborted and committed transactions."""
    log = Log([], [], [], 0)
    at = draw(st.integers(0, 100))
    for producer in range(draw(st.integers(1, 5))):
        records, end = draw(runs(at))
        sort = draw(st.sampled_from(("plain", "append-time", "committed", "aborted")))
        transactional = producer if sort in ("committed", "aborted") else -1
        codec = draw(st.sampled_from(CODECS))
        batch = batch_of(
            records, codec=codec, producer_id=transactional, last_offset_delta=end - 1 - at
        )
        if sort == "append-time":
            batch = patched(batch, attributes=8 | codec, max_timestamp=TIME + 77)
            records = [record._replace(timestamp=TIME + 77) for record in records]
        log.batches.append(bytes(batch))
        if sort == "aborted":
            log.aborted.append((producer, at))
        else:
            log.records.extend(records)
        if transactional >= 0:
            log.batches.append(bytes(marker(end, producer, int(sort == "committed"))))
            end += 1
        at = end
    return log._replace(end=at)


LIGHT = settings(max_examples=40)
LIMITS = st.sampled_from((250, 600, 1_000_000))


@LIGHT
@given(logs(), st.integers(0, 130), LIMITS)
def test_every_committed_record_from_the_wanted_offset_arrives_once_in_order(
    log: Log, wanted: int, limit: int
) -> None:
    walked = fetched(
        *log.batches, wanted=wanted, aborted=log.aborted, terms=Terms(max_batch_bytes=limit)
    )
    expected = [record for record in log.records if record.offset >= wanted]
    if walked.fault:
        assert walked.fault.kind is FaultKind.TOO_LARGE
        expected = [record for record in expected if record.offset < walked.fault.offset]
    else:
        assert walked.next_offset == max(wanted, log.end)
    assert copied(walked) == expected
    assert walked.records == len(expected)
    assert all(batch.size <= limit for batch in walked.batches)


@LIGHT
@given(logs(), st.integers(0, 130))
def test_positions_of_the_copies_tile_the_walk_and_holes_account_for_every_offset(
    log: Log, wanted: int
) -> None:
    walked = fetched(*log.batches, wanted=wanted, aborted=log.aborted)
    position = wanted
    for batch in walked.batches:
        assert position <= batch.first < batch.next_offset <= walked.next_offset
        gaps = sum(missing for _, missing in batch.holes)
        assert batch.count == batch.next_offset - batch.first - gaps
        assert list(batch.holes) == sorted(batch.holes)
        position = batch.next_offset


@LIGHT
@given(logs(), st.integers(0, 130))
def test_walking_in_two_steps_gives_what_one_walk_gives(log: Log, wanted: int) -> None:
    whole = fetched(*log.batches, wanted=wanted, aborted=log.aborted)
    if not whole.batches:
        return
    resume = whole.batches[0].next_offset
    rest = fetched(*log.batches, wanted=resume, aborted=log.aborted)
    first = whole._replace(batches=whole.batches[:1])
    assert copied(first) + copied(rest) == copied(whole)


@LIGHT
@given(logs())
def test_drop_recorded_leaves_out_exactly_the_records_without_key(log: Log) -> None:
    walked = fetched(
        *log.batches, aborted=log.aborted, terms=Terms(null_keys=NullKeys.DROP_RECORDED)
    )
    assert copied(walked) == [record for record in log.records if record.key is not None]
    without_key = [record.offset for record in log.records if record.key is None]
    assert [drop.offset for drop in walked.dropped] == without_key


@LIGHT
@given(logs(), st.sets(st.integers(0, 200)))
def test_merging_splitting_and_leaving_out_change_no_other_record(log: Log, out: set[int]) -> None:
    batches = fetched(*log.batches, aborted=log.aborted).batches
    if not batches:
        return
    one_codec = [batch for batch in batches if batch.attributes == batches[0].attributes]
    whole, taken = merged(one_codec, Terms()) or Merged(one_codec[0], 1)
    batch = without(whole, out)
    kept = [at for each in one_codec[:taken] for at in source_offsets(each) if at not in out]
    if batch is None:
        assert kept == []
        return
    pieces = divide(batch, batch.size // 2 + 61).batches
    records = {record.offset: record for record in log.records}
    found = read(*pieces)
    assert found == [records[at] for at in kept][: len(found)]


GOLDEN_NAMES = st.sampled_from(
    [
        f"{magic}-{codec}"
        for magic in ("v0", "v1", "v2")
        for codec in ("none", "gzip", "snappy", "lz4")
    ]
    + ["v2-zstd", "v2-zstd-holes", "v2-lz4-append-time", "v2-marker-abort", "v2-none-empty"]
)


@LIGHT
@given(GOLDEN_NAMES, st.data(), st.sampled_from(("wrong", "right")))
def test_damaged_bytes_are_a_fault_or_a_copy_but_no_error(
    name: str, data: st.DataObject, crc: str
) -> None:
    buffer = bytearray(golden(name)[0])
    for _ in range(data.draw(st.integers(1, 4))):
        buffer[data.draw(st.integers(8, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    if crc == "right" and name.startswith("v2"):
        buffer = patched(buffer)
    terms = Terms(max_batch_bytes=data.draw(LIMITS), null_keys=data.draw(st.sampled_from(NullKeys)))
    wanted = SourceOffset(data.draw(st.sampled_from((0, 1000, 1005))))
    walked = walk_fetched(buffer, 0, len(buffer), wanted, [], terms)
    assert walked.next_offset >= wanted
    assert walked.fault is None or walked.next_offset == walked.fault.offset


@given(st.binary(max_size=300))
def test_junk_is_a_fault_or_nothing_but_no_error(junk: bytes) -> None:
    walked = walk_fetched(junk, 0, len(junk), SourceOffset(0), [], Terms())
    assert walked.batches == [] or walked.records > 0
