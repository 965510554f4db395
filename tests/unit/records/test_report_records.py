from __future__ import annotations

import pytest

from mirrorfleet.records.packing import Skipped
from mirrorfleet.records.reports import Report, ReportKind, decode, decode_key, encode, of_topic

REPORT = Report(ReportKind.SLO, ("east->west", "orders"), {"freshness": 0.5, "lost": 0})
KEY = b'["slo","east->west","orders"]'
VALUE = b'{"v":1,"kind":"slo","freshness":0.5,"lost":0}'


def test_a_report_is_json_under_what_it_is_about() -> None:
    assert encode(REPORT) == (KEY, VALUE)
    assert decode(KEY, VALUE) == REPORT


def test_a_report_of_another_window_takes_the_place_of_the_last_one() -> None:
    rows = [
        {"link": "east->west", "topic": "orders", "window_start_ms": start_ms, "lost": 0}
        for start_ms in (0, 3_600_000)
    ]

    keys = {encode(of_topic(ReportKind.SLO, row))[0] for row in rows}

    assert keys == {KEY}


def test_the_keys_of_an_older_build_had_the_window_and_are_read() -> None:
    assert decode_key(b'["slo","east->west","orders",60000]') == (
        "slo",
        ("east->west", "orders", 60_000),
    )
    assert [decode_key(key) for key in (None, b"no json", b'{"slo":1}', b'["slo",[]]')] == [
        None
    ] * 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, VALUE),
        (KEY, None),
        (KEY, b"no json"),
        (KEY, b'{"v":2,"kind":"slo"}'),
        (b'{"slo":1}', VALUE),
        (b'["slo",[]]', VALUE),
    ],
)
def test_what_cannot_be_read_is_skipped(key: bytes | None, value: bytes | None) -> None:
    assert isinstance(decode(key, value), Skipped)
