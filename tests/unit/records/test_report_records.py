from __future__ import annotations

import pytest

from mirrorfleet.records.packing import Skipped
from mirrorfleet.records.reports import Report, ReportKind, decode, encode

REPORT = Report(ReportKind.SLO, ("east->west", "orders", 60_000), {"freshness": 0.5, "lost": 0})
KEY = b'["slo","east->west","orders",60000]'
VALUE = b'{"v":1,"kind":"slo","freshness":0.5,"lost":0}'


def test_a_report_is_json_under_what_it_is_about() -> None:
    assert encode(REPORT) == (KEY, VALUE)
    assert decode(KEY, VALUE) == REPORT


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
