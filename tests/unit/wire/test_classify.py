"""One verdict for each kind of batch, from its header."""

from __future__ import annotations

import pytest

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.wire.classify import Verdict, classify
from mirrorfleet.wire.copybatch import NullKeys, Terms
from tests.unit.wire.batches import batch_of, golden, header_of, patched, some

WHOLE = batch_of(some(5, first=10))
HOLES = patched(WHOLE, last_offset_delta=7)
EMPTY = patched(WHOLE, count=0)
APPENDED = patched(WHOLE, attributes=0x08)
CONTROL = patched(WHOLE, attributes=0x30)
OLD = golden("v1-gzip")[0]
PLAIN = Terms()


@pytest.mark.parametrize(
    ("batch", "wanted", "terms", "verdict"),
    [
        (WHOLE, 10, PLAIN, Verdict.PASS),
        (WHOLE, 9, PLAIN, Verdict.PASS),
        (WHOLE, 11, PLAIN, Verdict.TRIM),
        (WHOLE, 14, PLAIN, Verdict.TRIM),
        (WHOLE, 15, PLAIN, Verdict.BEHIND),
        (HOLES, 10, PLAIN, Verdict.HOLES),
        (HOLES, 17, PLAIN, Verdict.TRIM),
        (HOLES, 18, PLAIN, Verdict.BEHIND),
        (EMPTY, 10, PLAIN, Verdict.EMPTY),
        (EMPTY, 12, PLAIN, Verdict.EMPTY),
        (CONTROL, 10, PLAIN, Verdict.CONTROL),
        (CONTROL, 99, PLAIN, Verdict.CONTROL),
        (APPENDED, 10, PLAIN, Verdict.APPEND_TIME),
        (APPENDED, 10, Terms(target_append_time=True), Verdict.PASS),
        (WHOLE, 10, Terms(max_batch_bytes=len(WHOLE)), Verdict.PASS),
        (WHOLE, 10, Terms(max_batch_bytes=len(WHOLE) - 1), Verdict.OVERSIZE),
        (WHOLE, 10, Terms(null_keys=NullKeys.FAIL), Verdict.INSPECT),
        (WHOLE, 10, Terms(null_keys=NullKeys.DROP_RECORDED), Verdict.INSPECT),
        (OLD, 1000, PLAIN, Verdict.LEGACY),
        (OLD, 1011, PLAIN, Verdict.LEGACY),
        (OLD, 1012, PLAIN, Verdict.BEHIND),
    ],
)
def test_each_kind_of_batch_has_its_verdict(
    batch: bytes, wanted: int, terms: Terms, verdict: Verdict
) -> None:
    assert classify(header_of(batch), SourceOffset(wanted), terms) is verdict


def test_an_aborted_batch_is_aborted_whatever_else_it_is() -> None:
    for batch in (WHOLE, HOLES, APPENDED):
        verdict = classify(header_of(batch), SourceOffset(10), PLAIN, aborted=True)
        assert verdict is Verdict.ABORTED


def test_a_marker_of_an_aborted_transaction_is_still_a_marker() -> None:
    verdict = classify(header_of(CONTROL), SourceOffset(10), PLAIN, aborted=True)
    assert verdict is Verdict.CONTROL
