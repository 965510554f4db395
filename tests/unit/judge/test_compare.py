"""The comparison names each way in which a copy can differ from its source, and nothing else."""

from __future__ import annotations

import pytest

from tests.judge.compare import Anomaly, Kind, OffsetRange, compare
from tests.judge.log import Log, digest


def log_of(records: str, *, first_offset: int = 0, step: int = 1) -> Log:
    """One record a letter; equal letters are equal records."""
    log = Log()
    for index, letter in enumerate(records):
        log.append(first_offset + index * step, digest(None, letter.encode(), None, 0, 1))
    return log


def judged(source: str, target: str) -> list[tuple[Kind, int, str, str]]:
    anomalies = compare(log_of(source), log_of(target, first_offset=100))
    return [(a.kind, a.count, str(a.source), str(a.target)) for a in anomalies]


def only(source: str, target: str) -> Anomaly:
    (anomaly,) = compare(log_of(source), log_of(target, first_offset=100))
    return anomaly


@pytest.mark.parametrize("records", ["", "a", "abcdef", "aaaa", "abab"])
def test_an_exact_copy_has_no_anomaly(records: str) -> None:
    assert judged(records, records) == []


def test_offsets_do_not_matter_because_markers_and_compaction_leave_holes() -> None:
    assert compare(log_of("abc", step=7), log_of("abc", first_offset=3, step=2)) == []


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("abcdef", "abdef", [(Kind.LOST, 1, "2", "None")]),
        ("abcdef", "cdef", [(Kind.LOST, 2, "0..1", "None")]),
        (
            "abcdef",
            "adf",
            [(Kind.LOST, 2, "1..2", "None"), (Kind.LOST, 1, "4", "None")],
        ),
        ("abcdef", "abcd", [(Kind.UNSEEN, 2, "4..5", "None")]),
        ("abc", "", [(Kind.UNSEEN, 3, "0..2", "None")]),
        (
            "abcdef",
            "abd",
            [(Kind.LOST, 1, "2", "None"), (Kind.UNSEEN, 2, "4..5", "None")],
        ),
        ("abcdef", "abccdef", [(Kind.REPEATED, 1, "2", "103")]),
        ("abcdef", "abcdefab", [(Kind.REPEATED, 2, "0..1", "106..107")]),
        ("abcdef", "abcdefabcdef", [(Kind.REPEATED, 6, "0..5", "106..111")]),
        ("abcdef", "acbdef", [(Kind.OUT_OF_ORDER, 1, "2", "101")]),
        ("abcdef", "bcdefa", [(Kind.OUT_OF_ORDER, 1, "0", "105")]),
        ("abcdef", "fabcde", [(Kind.OUT_OF_ORDER, 1, "5", "100")]),
        ("abcdef", "abXdef", [(Kind.CHANGED, 1, "2", "102")]),
        ("abcdef", "abXYef", [(Kind.CHANGED, 2, "2..3", "102..103")]),
        ("abcdef", "abcdeX", [(Kind.CHANGED, 1, "5", "105")]),
        ("abcdef", "abcXdef", [(Kind.EXTRA, 1, "None", "103")]),
        ("abcdef", "abcdefX", [(Kind.EXTRA, 1, "None", "106")]),
        ("", "XY", [(Kind.EXTRA, 2, "None", "100..101")]),
    ],
)
def test_each_anomaly_is_named_with_its_offsets_on_both_sides(
    source: str, target: str, expected: list[tuple[Kind, int, str, str]]
) -> None:
    assert judged(source, target) == expected


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("aab", "ab", [(Kind.LOST, 1, "1", "None")]),
        ("axay", "xay", [(Kind.LOST, 1, "0", "None")]),
        ("aba", "abaa", [(Kind.REPEATED, 1, "2", "103")]),
        ("aa", "a", [(Kind.UNSEEN, 1, "1", "None")]),
        (
            "axayz",
            "xazy",
            [(Kind.LOST, 1, "0", "None"), (Kind.OUT_OF_ORDER, 1, "4", "102")],
        ),
    ],
)
def test_records_that_are_equal_in_the_source_are_counted_each(
    source: str, target: str, expected: list[tuple[Kind, int, str, str]]
) -> None:
    assert judged(source, target) == expected


def test_several_anomalies_in_one_partition_are_all_named() -> None:
    assert judged("abcdefghij", "abXdgfeijjZ") == [
        (Kind.LOST, 1, "7", "None"),
        (Kind.CHANGED, 1, "2", "102"),
        (Kind.REPEATED, 1, "9", "109"),
        (Kind.EXTRA, 1, "None", "110"),
        (Kind.OUT_OF_ORDER, 1, "6", "104"),
        (Kind.OUT_OF_ORDER, 1, "5", "105"),
    ]


def test_a_difference_beyond_many_equal_records_is_found() -> None:
    source, target = log_of("ab" * 10_000), log_of("ab" * 10_000)
    target.digests[16 * 15_000] ^= 1
    (anomaly,) = compare(source, target)
    assert (anomaly.kind, anomaly.source) == (Kind.CHANGED, OffsetRange(15_000, 15_000))


def test_the_excerpt_shows_the_neighbours_on_both_sides() -> None:
    assert only("abcdefgh", "abcefgh").excerpt == "source 1 2 [3] 4 5\ntarget 101 102 [] 103 104"
    assert only("abcd", "bcd").excerpt == "source [0] 1 2\ntarget [] 100 101"
    assert only("abcd", "abXd").excerpt == "source 0 1 [2] 3\ntarget 100 101 [102] 103"
    assert only("abcd", "abcXd").excerpt == "target 101 102 [103] 104"


def test_the_excerpt_of_a_repeat_shows_where_the_first_copy_is() -> None:
    assert only("abcdef", "abcdefa").excerpt == (
        "source [0] 1 2\ntarget 104 105 [106]\nfirst copy at target 100"
    )
