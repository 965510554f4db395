"""What records look like must not matter: every kind of content arrives as it was."""

from __future__ import annotations

import time

from tests.integration.mirror import content
from tests.integration.mirror.conftest import Matrix
from tests.integration.mirror.making import read, seen, values
from tests.integration.mirror.stored import CODECS, Stored, data, stored

WEST = "east."
DAY_MS = 86_400_000


def visible(matrix: Matrix, topic: str, partitions: int) -> list[list[Stored]]:
    """Batches of the copy that a read_committed consumer sees: a refusal elsewhere may abort."""
    found = []
    for number, records in enumerate(read(matrix.fleet.west, WEST + topic, partitions)):
        shown = {record.offset for record in records}
        batches = data(matrix.fleet.west, WEST + topic, number)
        found.append([batch for batch in batches if batch.offset in shown])
    return found


def test_batches_of_many_records_arrive_in_the_same_codec_and_the_same_batches(
    matrix: Matrix,
) -> None:
    assert matrix.records(content.CODEC) == [4 * content.OF_MANY] * 5

    for number, copied in enumerate(visible(matrix, content.CODEC, 5)):
        codec = CODECS[number]
        made = data(matrix.fleet.east, content.CODEC, number)
        assert {batch.codec for batch in copied} == {codec}
        assert [batch.records for batch in made] == [content.OF_MANY] * 4
        assert [(b.records, b.size) for b in copied] == [(b.records, b.size) for b in made]


def test_tiny_batches_arrive_merged_and_in_order(matrix: Matrix) -> None:
    assert matrix.records(content.TINY) == [2_000]

    assert len(data(matrix.fleet.east, content.TINY)) == 2_000
    assert len(visible(matrix, content.TINY, 1)[0]) < 200


def test_records_of_a_megabyte_arrive(matrix: Matrix) -> None:
    assert matrix.records(content.LARGE) == [12]


def test_missing_and_empty_keys_and_values_stay_what_they_are(matrix: Matrix) -> None:
    assert matrix.records(content.NULLS) == [4]

    copied = [(r.key, r.value) for r in seen(matrix.fleet.west, WEST + content.NULLS)]
    assert copied == [(None, b"no key"), (b"no value", None), (None, None), (b"", b"")]


def test_ten_thousand_headers_repeated_and_empty_ones_arrive(matrix: Matrix) -> None:
    assert matrix.records(content.HEADERS) == [3]


def test_times_far_ahead_and_long_ago_arrive_unchanged(matrix: Matrix) -> None:
    assert matrix.records(content.TIMES) == [4]

    copied = {r.value: r.timestamp for r in seen(matrix.fleet.west, WEST + content.TIMES)}
    ahead = copied[b"ten days ahead"]
    assert 9.9 * DAY_MS < ahead - time.time() * 1000 < 10 * DAY_MS
    assert (copied[b"1970"], copied[b"year 9999"]) == (1, 253_402_300_799_000)


def test_empty_partitions_get_empty_copies(matrix: Matrix) -> None:
    assert matrix.records(content.SPARSE) == [0, 0, 0, 0, 0, 3, 0, 0]


def test_a_compacted_topic_arrives_with_its_tombstones_and_without_its_holes(
    matrix: Matrix,
) -> None:
    (copied,) = matrix.records(content.COMPACTED)

    holed = data(matrix.fleet.east, content.COMPACTED)[0]
    assert (holed.codec, holed.records, holed.last_delta) == ("zstd", 11, 31)
    first = [(r.offset, r.key, r.value) for r in seen(matrix.fleet.west, WEST + content.COMPACTED)]
    kept = [(n - 20, b"k%d" % (n - 20), b"%d" % n) for n in range(20, 30)]
    assert first[:11] == [*kept, (10, b"gone", None)]
    assert {key for _, key, _ in first[11:]} == {b"roll"}
    assert len(first) == copied


def test_emptied_control_batches_are_passed_over(matrix: Matrix) -> None:
    (copied,) = matrix.records(content.EMPTIED)

    source = stored(matrix.fleet.east, content.EMPTIED)
    assert [b.control for b in source if not b.records].count(True) >= 1
    first = values(matrix.fleet.west, WEST + content.EMPTIED)[:10]
    assert first == [b"%020d" % n for n in range(10)]
    assert copied >= 11


def test_append_times_of_the_source_become_the_times_of_the_copies(matrix: Matrix) -> None:
    assert matrix.records(content.APPEND) == [50] * 5

    seen_there = read(matrix.fleet.west, WEST + content.APPEND, 5)
    for number, (copied,) in enumerate(visible(matrix, content.APPEND, 5)):
        codec = CODECS[number]
        (made,) = data(matrix.fleet.east, content.APPEND, number)
        assert (copied.codec, copied.append_time) == (codec, False)
        assert {record.timestamp for record in seen_there[number]} == {made.max_timestamp}


def test_a_target_with_append_time_gets_the_batches_as_they_are_and_sets_its_own(
    matrix: Matrix,
) -> None:
    assert matrix.records(content.APPEND_BOTH) == [50] * 5
    assert matrix.records(content.APPEND_THERE) == [1]

    for number, (copied,) in enumerate(visible(matrix, content.APPEND_BOTH, 5)):
        codec = CODECS[number]
        (made,) = data(matrix.fleet.east, content.APPEND_BOTH, number)
        assert (copied.codec, copied.append_time, copied.size) == (codec, True, made.size)
        assert copied.max_timestamp > made.max_timestamp


def test_copying_begins_in_the_middle_of_a_batch_of_each_codec(matrix: Matrix) -> None:
    assert matrix.records(content.MID_OFFSET) == [63] * 5
    assert matrix.records(content.MID_TIME) == [63] * 5

    for topic in (content.MID_OFFSET, content.MID_TIME):
        for copied in read(matrix.fleet.west, WEST + topic, 5):
            assert (copied[0].value, copied[-1].value) == (b"%020d" % 37, b"%020d" % 99)


def test_committed_records_of_transactions_arrive_and_aborted_ones_never_do(
    matrix: Matrix,
) -> None:
    assert matrix.records(content.MIXED) == [5]
    assert matrix.records(content.HUGE) == [50_000, 1]

    kept = [b"plain 1", b"kept 1", b"kept 2", b"plain 2", b"kept 3"]
    assert values(matrix.fleet.west, WEST + content.MIXED) == kept
    assert values(matrix.fleet.west, WEST + content.HUGE, 1) == [b"after"]
    assert {b.records for b in data(matrix.fleet.west, WEST + content.HUGE, 1)} == {1}
