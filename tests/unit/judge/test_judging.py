"""What makes the judge doubt an exact copy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.judge.judging import Copy, _compared
from tests.judge.log import Log
from tests.judge.reading import Ends, Reading
from tests.judge.verdict import Demands, Finding, Verdict, decide

EXACT = Finding(
    source_topic="orders",
    target_topic="east.orders",
    partition=0,
    source_records=2,
    target_records=0,
)
COPY = cast("Copy", SimpleNamespace(earlier={}))


def log(records: int) -> Log:
    made = Log()
    for offset in range(records):
        made.append(offset, bytes([offset]) * 16)
    return made


@pytest.mark.parametrize(
    ("made", "verdict", "doubts"),
    [
        (Reading(log(2), Ends(2, 2), finished=True), Verdict.PASS, ()),
        (
            Reading(log(2), Ends(9, 9), finished=False),
            Verdict.UNKNOWN,
            ("the target could not be read to its end",),
        ),
        (
            Reading(log(2), Ends(2, 9), finished=True),
            Verdict.UNKNOWN,
            ("a transaction is still open in the target",),
        ),
    ],
    ids=["read to its end", "repeats may lie behind", "records may come"],
)
def test_a_copy_is_exact_only_when_all_of_it_was_read(
    made: Reading, verdict: Verdict, doubts: tuple[str, ...]
) -> None:
    found = _compared(COPY, EXACT, log(2), made)

    assert found.doubts == doubts
    assert decide([found], demands=Demands()).verdict is verdict
