"""A fetched range, walked: each rule of copying, seen through what the target's consumers read."""

from __future__ import annotations

import pytest

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.copybatch import BatchFault, Dropped, FaultKind, NullKeys, Terms
from mirrorfleet.wire.engine import walk_fetched
from tests.unit.wire.batches import (
    CODECS,
    GZIP,
    LZ4,
    TIME,
    Seen,
    batch_of,
    copied,
    fetched,
    header_of,
    marker,
    patched,
    sent,
    some,
)

WITHOUT_KEY = [
    Seen(0, TIME, b"a", b"0"),
    Seen(1, TIME, b"", b"1"),
    Seen(2, TIME, None, b"2"),
    Seen(3, TIME, b"b", b"3"),
    Seen(4, TIME, None, None),
]


def test_a_whole_batch_passes_with_its_payload_untouched_and_uncopied() -> None:
    frame = batch_of(some(5, first=10), codec=LZ4, leader_epoch=3)
    (batch,) = walk_fetched(frame, 0, len(frame), SourceOffset(10), [], Terms()).batches
    assert isinstance(batch.payload, memoryview)
    assert batch.payload.obj is frame
    assert bytes(batch.payload) == frame[61:]
    assert (batch.first, batch.next_offset, batch.count, batch.holes) == (10, 15, 5, ())
    assert (batch.leader_epoch, batch.attributes) == (3, LZ4)
    assert (batch.base_timestamp, batch.max_timestamp) == (TIME, TIME + 40)


def test_several_batches_come_out_in_order_and_the_cut_one_is_fetched_again() -> None:
    log = [batch_of(some(3)), batch_of(some(2, first=3)), batch_of(some(9, first=5))[:-1]]
    walked = fetched(*log)
    assert copied(walked) == [*some(3), *some(2, first=3)]
    assert (walked.records, walked.next_offset, walked.fault) == (5, 5, None)


def test_a_range_without_a_complete_batch_leaves_the_position() -> None:
    walked = fetched(batch_of(some(3))[:70], wanted=1)
    assert (walked.batches, walked.next_offset, walked.leader_epoch) == ([], 1, -1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_begins_before_the_wanted_offset_is_trimmed(codec: int) -> None:
    walked = fetched(batch_of(some(10, first=100), codec=codec), wanted=104)
    assert copied(walked) == some(10, first=100)[4:]
    (batch,) = walked.batches
    assert (batch.first, batch.next_offset, batch.holes) == (104, 110, ())
    assert batch.attributes == codec


def test_a_batch_that_ends_before_the_wanted_offset_is_skipped() -> None:
    walked = fetched(batch_of(some(3)), batch_of(some(2, first=3)), wanted=3)
    assert copied(walked) == some(2, first=3)


@pytest.mark.parametrize("codec", CODECS)
def test_holes_are_closed_and_remembered(codec: int) -> None:
    kept = [some(9, first=700)[i] for i in (0, 2, 3, 6)]
    batch = batch_of(kept, codec=codec, last_offset_delta=8)
    walked = fetched(batch, wanted=700)
    assert copied(walked) == kept
    (copy,) = walked.batches
    assert copy.holes == ((701, 1), (704, 2), (707, 2))
    assert (copy.first, copy.next_offset, copy.count) == (700, 709, 4)
    assert header_of(sent(copy)).last_offset_delta == 3


def test_trimming_into_a_trailing_hole_copies_nothing_and_moves_on() -> None:
    batch = batch_of(some(3), last_offset_delta=8)
    walked = fetched(batch, wanted=5)
    assert (walked.batches, walked.next_offset, walked.fault) == ([], 9, None)


def test_missing_whole_batches_are_a_gap_between_copies_and_no_hole() -> None:
    walked = fetched(batch_of(some(2)), batch_of(some(2, first=50)))
    assert [(b.first, b.next_offset, b.holes) for b in walked.batches] == [
        (0, 2, ()),
        (50, 52, ()),
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_an_append_time_topic_get_the_time_that_their_consumers_see(codec: int) -> None:
    batch = patched(
        batch_of(some(3), codec=codec), attributes=0x08 | codec, max_timestamp=TIME + 999
    )
    walked = fetched(batch)
    assert [record.timestamp for record in copied(walked)] == [TIME + 999] * 3
    (copy,) = walked.batches
    assert (copy.base_timestamp, copy.max_timestamp) == (TIME + 999, TIME + 999)


def test_an_append_time_target_sets_its_own_time_so_the_payload_passes() -> None:
    batch = patched(batch_of(some(3)), attributes=0x08, max_timestamp=TIME + 999)
    (copy,) = fetched(batch, terms=Terms(target_append_time=True)).batches
    assert bytes(copy.payload) == batch[61:]
    assert header_of(sent(copy)).is_log_append_time is False
    assert copy.oldest_timestamp == TIME + 999


@pytest.mark.parametrize("codec", CODECS)
def test_an_oversize_batch_is_split_between_records(codec: int) -> None:
    limit = 400
    walked = fetched(batch_of(some(100), codec=codec), terms=Terms(max_batch_bytes=limit))
    assert copied(walked) == some(100)
    assert len(walked.batches) > 1
    assert max(len(sent(batch)) for batch in walked.batches) <= limit
    assert {batch.attributes for batch in walked.batches} == {codec}


def test_a_record_that_is_too_large_is_a_fault_after_everything_before_it() -> None:
    records = [*some(3), Seen(3, TIME, b"big", b"x" * 500), *some(2, first=4)]
    walked = fetched(batch_of(records), terms=Terms(max_batch_bytes=300))
    assert copied(walked) == some(3)
    assert walked.fault is not None
    assert (walked.fault.offset, walked.fault.kind) == (3, FaultKind.TOO_LARGE)
    assert "507 bytes" in walked.fault.detail
    assert "573 bytes" in walked.fault.detail
    assert "is 300" in walked.fault.detail
    assert walked.next_offset == 3


def test_an_unkeyed_record_stops_the_copy_under_policy_fail() -> None:
    walked = fetched(batch_of(WITHOUT_KEY), terms=Terms(null_keys=NullKeys.FAIL))
    assert copied(walked) == WITHOUT_KEY[:2]
    assert walked.fault is not None
    assert (walked.fault.offset, walked.fault.kind) == (2, FaultKind.NULL_KEY)
    assert (walked.next_offset, walked.batches[0].next_offset) == (2, 2)


def test_the_walk_goes_on_after_a_fault_from_the_record_behind_it() -> None:
    walked = fetched(batch_of(WITHOUT_KEY), wanted=3, terms=Terms(null_keys=NullKeys.FAIL))
    assert copied(walked) == WITHOUT_KEY[3:4]
    assert walked.next_offset == 4


def test_unkeyed_records_are_dropped_and_recorded_under_policy_drop() -> None:
    walked = fetched(batch_of(WITHOUT_KEY), terms=Terms(null_keys=NullKeys.DROP_RECORDED))
    assert copied(walked) == [WITHOUT_KEY[0], WITHOUT_KEY[1], WITHOUT_KEY[3]]
    assert walked.dropped == (
        Dropped(SourceOffset(2), FaultKind.NULL_KEY),
        Dropped(SourceOffset(4), FaultKind.NULL_KEY),
    )
    assert (walked.batches[0].holes, walked.next_offset) == (((2, 1), (4, 1)), 5)


def test_a_batch_in_which_every_record_is_dropped_moves_the_position() -> None:
    walked = fetched(
        batch_of([Seen(0, TIME, None, b"x")]), terms=Terms(null_keys=NullKeys.DROP_RECORDED)
    )
    assert (walked.batches, walked.next_offset, len(walked.dropped)) == ([], 1, 1)


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_are_left_out_become_holes_and_their_neighbours_pass(codec: int) -> None:
    log = [batch_of(some(4), codec=codec), batch_of(some(4, first=4), codec=codec)]
    left_out = ((SourceOffset(1), SourceOffset(2)), (SourceOffset(9), SourceOffset(10)))
    walked = fetched(*log, terms=Terms(left_out=left_out))
    assert [(b.first, b.next_offset, b.holes) for b in walked.batches] == [
        (0, 4, ((1, 1),)),
        (4, 8, ()),
    ]
    assert [seen.offset for seen in copied(walked)] == [0, 2, 3, 4, 5, 6, 7]
    assert isinstance(walked.batches[1].payload, memoryview)


def test_a_batch_of_which_every_record_is_left_out_moves_the_position_only() -> None:
    everything = ((SourceOffset(0), SourceOffset(9)),)
    walked = fetched(batch_of(some(4)), terms=Terms(left_out=everything))
    assert (walked.batches, walked.next_offset, walked.fault) == ([], 4, None)


def test_a_record_that_is_left_out_is_no_fault_however_large_or_keyless_it_is() -> None:
    left_out = ((SourceOffset(2), SourceOffset(3)), (SourceOffset(4), SourceOffset(5)))
    terms = Terms(null_keys=NullKeys.FAIL, left_out=left_out)
    walked = fetched(batch_of(WITHOUT_KEY), terms=terms)
    assert ([seen.offset for seen in copied(walked)], walked.fault) == ([0, 1, 3], None)


REFUSED = BatchFault(SourceOffset(3), FaultKind.REFUSED, "the target said so")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("first", [0, 3], ids=["in a batch", "at the begin of one"])
def test_what_comes_before_a_record_that_the_target_refused_is_copied_and_nothing_else(
    first: int, codec: int
) -> None:
    lead = [batch_of(some(first), codec=codec)] if first else []
    walked = fetched(
        *lead,
        batch_of(some(5, first=first), codec=codec, leader_epoch=4),
        terms=Terms(refused=REFUSED),
    )
    assert copied(walked) == some(3)
    assert (walked.fault, walked.next_offset) == (REFUSED, 3)
    assert walked.batches[-1].next_offset == 3


def test_a_refused_record_that_is_left_out_or_gone_by_now_stops_nothing() -> None:
    left_out = ((SourceOffset(3), SourceOffset(4)),)
    left = fetched(batch_of(some(5)), terms=Terms(refused=REFUSED, left_out=left_out))
    gone = fetched(batch_of([*some(3), *some(1, first=4)]), terms=Terms(refused=REFUSED))
    assert [[seen.offset for seen in copied(each)] for each in (left, gone)] == [[0, 1, 2, 4]] * 2
    assert (left.fault, gone.fault) == (None, None)


def test_a_drop_behind_a_refused_record_did_not_happen() -> None:
    terms = Terms(null_keys=NullKeys.DROP_RECORDED, refused=REFUSED)
    walked = fetched(batch_of(WITHOUT_KEY), terms=terms)
    assert ([seen.offset for seen in copied(walked)], walked.fault) == ([0, 1], REFUSED)
    assert walked.dropped == (Dropped(SourceOffset(2), FaultKind.NULL_KEY),)


@pytest.mark.parametrize("policy", [NullKeys.FAIL, NullKeys.DROP_RECORDED])
def test_a_keyed_batch_passes_untouched_under_every_policy(policy: NullKeys) -> None:
    frame = batch_of(some(5), codec=GZIP)
    (batch,) = fetched(frame, terms=Terms(null_keys=policy)).batches
    assert bytes(batch.payload) == frame[61:]


def test_a_drop_after_a_record_that_is_too_large_did_not_happen() -> None:
    records = [Seen(0, TIME, b"k", b"x" * 500), Seen(1, TIME, None, b"y")]
    walked = fetched(
        batch_of(records),
        terms=Terms(max_batch_bytes=300, null_keys=NullKeys.DROP_RECORDED),
    )
    assert walked.dropped == ()
    assert walked.fault is not None
    assert walked.fault.offset == 0


def test_of_two_faults_in_a_batch_the_first_offset_counts() -> None:
    records = [Seen(0, TIME, b"k", b"x" * 500), Seen(1, TIME, None, b"y")]
    terms = Terms(max_batch_bytes=300, null_keys=NullKeys.FAIL)
    walked = fetched(batch_of(records), terms=terms)
    assert walked.fault is not None
    assert (walked.fault.offset, walked.fault.kind) == (0, FaultKind.TOO_LARGE)


def test_corrupt_bytes_are_a_fault_after_the_good_batches() -> None:
    broken = batch_of(some(2, first=3))
    broken[-1] ^= 1
    walked = fetched(batch_of(some(3)), broken, batch_of(some(2, first=5)))
    assert copied(walked) == some(3)
    assert walked.fault is not None
    assert (walked.fault.offset, walked.fault.kind) == (3, FaultKind.CORRUPT)
    assert "CRC" in walked.fault.detail


def test_offsets_that_go_back_inside_an_answer_are_corrupt() -> None:
    """The base offset is outside the CRC."""
    walked = fetched(batch_of(some(3, first=5)), batch_of(some(3, first=6)), wanted=5)
    assert walked.fault is not None
    assert (walked.fault.offset, walked.fault.kind) == (8, FaultKind.CORRUPT)


def test_a_corrupt_marker_or_aborted_batch_is_found_before_it_is_skipped() -> None:
    bad_marker = marker(0, 11, 1)
    bad_marker[30] ^= 1
    bad_data = batch_of(some(2), producer_id=11)
    bad_data[-1] ^= 1
    for bad in (bad_marker, bad_data):
        walked = fetched(bad, aborted=[(11, 0)])
        assert walked.fault is not None
        assert walked.fault.kind is FaultKind.CORRUPT


def test_the_leader_epoch_is_that_of_the_last_batch_walked_skipped_ones_included() -> None:
    log = [
        batch_of(some(2), leader_epoch=4),
        patched(marker(2, 11, 1), leader_epoch=5),
    ]
    walked = fetched(*log)
    assert (walked.leader_epoch, walked.next_offset) == (5, 3)
    assert walked.batches[0].leader_epoch == 4
