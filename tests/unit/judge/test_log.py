"""No two records that a consumer can tell apart have one digest."""

from __future__ import annotations

import itertools

import pytest

from tests.judge.log import Log, Stamp, digest

RECORDS: dict[
    str, tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int, Stamp]
] = {
    "plain": (b"k", b"v", [], 5, Stamp.CREATE),
    "null key": (None, b"v", [], 5, Stamp.CREATE),
    "empty key": (b"", b"v", [], 5, Stamp.CREATE),
    "null value": (b"k", None, [], 5, Stamp.CREATE),
    "empty value": (b"k", b"", [], 5, Stamp.CREATE),
    "byte moved from value to key": (b"kv", b"", [], 5, Stamp.CREATE),
    "other timestamp": (b"k", b"v", [], 6, Stamp.CREATE),
    "other timestamp type": (b"k", b"v", [], 5, Stamp.APPEND),
    "header": (b"k", b"v", [("a", b"1")], 5, Stamp.CREATE),
    "header null": (b"k", b"v", [("a", None)], 5, Stamp.CREATE),
    "header empty": (b"k", b"v", [("a", b"")], 5, Stamp.CREATE),
    "header name empty": (b"k", b"v", [("", b"a")], 5, Stamp.CREATE),
    "header twice": (b"k", b"v", [("a", b"1"), ("a", b"1")], 5, Stamp.CREATE),
    "two headers": (b"k", b"v", [("a", b"1"), ("b", b"2")], 5, Stamp.CREATE),
    "two headers in the other order": (
        b"k",
        b"v",
        [("b", b"2"), ("a", b"1")],
        5,
        Stamp.CREATE,
    ),
    "byte moved into the header's name": (b"k", b"v", [("a1", b"")], 5, Stamp.CREATE),
}


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(RECORDS, 2)))
def test_two_different_records_have_two_digests(one: str, other: str) -> None:
    assert digest(*RECORDS[one]) != digest(*RECORDS[other])


def test_no_headers_and_an_empty_list_of_headers_are_one_record() -> None:
    assert digest(b"k", b"v", None, 5, 1) == digest(b"k", b"v", [], 5, 1)


def test_a_log_keeps_24_bytes_a_record() -> None:
    log = Log()
    log.append(7, digest(b"k", b"v", None, 5, 1))
    log.append(9, digest(b"l", b"v", None, 5, 1))
    assert (len(log), list(log.offsets), len(log.digests)) == (2, [7, 9], 32)
    assert log.digest(1) == digest(b"l", b"v", None, 5, 1)


def a_log(*offsets: int) -> Log:
    log = Log()
    for offset in offsets:
        log.append(offset, digest(b"k", b"%d" % offset, None, 5, 1))
    return log


def test_a_log_is_cut_by_offsets_and_put_together_in_the_order_said() -> None:
    log = a_log(2, 4, 5, 9)
    assert log.between(4, 9) == a_log(4, 5)
    assert log.without(3, 6) == a_log(2, 9)
    assert log.without(10, 12) == log
    assert log.between(5, 10).followed_by(log.between(2, 5)) == a_log(5, 9, 2, 4)
