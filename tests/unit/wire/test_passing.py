"""Batches that go as they are: what ends a run of them, and that the walk says the same of each."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire import engine
from mirrorfleet.wire.copybatch import Terms
from mirrorfleet.wire.passing import Passed, passed
from tests.unit.wire.batches import CODECS, TIME, batch_of, fetched, marker, some
from tests.unit.wire.test_legacy import message
from tests.unit.wire.test_properties import Log, logs

ALICE, BOB = 7, 8
BEFORE = batch_of(some(3), leader_epoch=4)


def run_of(*batches: bytes | bytearray, wanted: int = 0, most: int = 1_000_000) -> Passed:
    """The run at the beginning of these bytes."""
    buffer = memoryview(b"".join(batches))
    return passed(buffer, 0, len(buffer), SourceOffset(wanted), Terms(max_batch_bytes=most))


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_each_codec_go_as_they_are(codec: int) -> None:
    batch = batch_of(some(5, first=10), codec=codec, leader_epoch=3)
    run = run_of(batch, batch_of(some(2, first=20), producer_id=ALICE), wanted=7)
    (first, second), end = run.batches, len(batch)
    assert bytes(first.payload) == bytes(batch[61:])
    assert (first.attributes, first.leader_epoch) == (codec, 3)
    assert (first.base_timestamp, first.max_timestamp) == (TIME, TIME + 40)
    assert (first.first, first.next_offset, first.count) == (10, 15, 5)
    assert (second.first, second.next_offset, second.attributes) == (20, 22, 0)
    assert (run.end > end, run.undecided) == (True, {ALICE: 20})


@pytest.mark.parametrize(
    "other",
    [
        marker(3, ALICE, 1),
        batch_of(some(2, first=2)),
        batch_of(some(2, first=3), last_offset_delta=4),
        batch_of(some(2, first=3), count=0, last_offset_delta=-1),
        batch_of(some(2, first=3), attributes=8),
        batch_of(some(2, first=3), attributes=64),
        batch_of(some(2, first=3), attributes=5),
        batch_of(some(1, first=3)),
        batch_of(some(400, first=3)),
        batch_of(some(2, first=3))[:-1],
        batch_of(some(2, first=3))[:50],
        batch_of(some(2, first=3))[:-1] + b"\xff",
        batch_of(some(2, first=3))[:16] + b"\1" + batch_of(some(2, first=3))[17:],
        batch_of(some(2, first=3))[:8] + b"\0\0\0\x0a" + batch_of(some(2, first=3))[12:],
        b"\0" * 100,
    ],
    ids=[
        "marker",
        "overlaps",
        "holes",
        "empty",
        "append-time",
        "delete-horizon",
        "no-codec",
        "one-small-record",
        "too-large",
        "cut",
        "header-cut",
        "wrong-crc",
        "old-format",
        "no-header",
        "zeros",
    ],
)
def test_what_is_to_be_decided_ends_the_run(other: bytes | bytearray) -> None:
    run = run_of(BEFORE, other, most=4_000)
    assert (len(run.batches), run.end) == (1, len(BEFORE))


def test_what_is_behind_the_range_is_of_another_partition() -> None:
    buffer = memoryview(BEFORE)
    assert passed(buffer, 0, len(buffer) - 1, SourceOffset(0), Terms()).batches == []


def test_one_large_record_goes_as_it_is() -> None:
    batch = batch_of(some(1, first=3, size=4_000))
    assert run_of(BEFORE, batch).end == len(BEFORE) + len(batch)


def test_the_first_transactional_offset_of_each_producer_is_told() -> None:
    log = [batch_of(some(2, first=n * 2), producer_id=(ALICE, BOB)[n % 2]) for n in range(5)]
    assert run_of(*log).undecided == {ALICE: 0, BOB: 2}


def test_runs_go_on_behind_a_marker_and_what_they_hold_is_undecided() -> None:
    log = [
        batch_of(some(3), producer_id=ALICE),
        marker(3, ALICE, 1),
        batch_of(some(3, first=4), producer_id=ALICE),
        batch_of(some(3, first=7), producer_id=BOB),
        marker(10, BOB, 1),
    ]
    with patch.object(engine, "passed", wraps=passed) as runs:
        walked = fetched(*log)
    assert [batch.first for batch in walked.batches] == [0, 4, 7]
    assert [call.args[1] for call in runs.call_args_list][1] == len(log[0]) + len(log[1])
    assert (walked.undecided, walked.control_batches, walked.next_offset) == ({ALICE: 4}, 2, 11)


def test_a_record_that_is_to_be_looked_at_is_in_no_run() -> None:
    gone = SourceOffset(4), SourceOffset(5)
    walked = fetched(BEFORE, batch_of(some(3, first=3)), terms=Terms(left_out=(gone,)))
    assert walked.records == 5


def test_old_messages_between_runs_keep_their_place() -> None:
    new = [batch_of(some(3, first=n)) for n in (0, 5)]
    walked = fetched(new[0], message(3, b"k", b"v"), message(4, b"k", b"v"), new[1])
    assert [batch.first for batch in walked.batches] == [0, 3, 5]


@settings(max_examples=60)
@given(logs(), st.integers(0, 130), st.sampled_from((250, 600, 1_000_000)))
def test_the_walk_says_the_same_of_each_batch_alone(log: Log, wanted: int, most: int) -> None:
    terms = Terms(max_batch_bytes=most)
    aborted = log.aborted[:1]  # of the others their markers tell
    in_runs = fetched(*log.batches, wanted=wanted, aborted=aborted, terms=terms)
    without = fetched(*log.batches, wanted=wanted, terms=terms)
    with patch.object(engine, "passed", lambda _view, start, *_rest: Passed([], start, {})):
        assert in_runs == fetched(*log.batches, wanted=wanted, aborted=aborted, terms=terms)
        assert without == fetched(*log.batches, wanted=wanted, terms=terms)
