"""A transaction of the source that is still open holds back what lies behind it, and no more."""

from __future__ import annotations

from tests.integration.mirror import content
from tests.integration.mirror.conftest import Matrix
from tests.integration.mirror.fleet import wait_values
from tests.integration.mirror.making import ANSWER_S, values
from tests.judge.verdict import Verdict

WEST = "east."


def tens(*numbers: int) -> list[bytes | None]:
    return [b"%020d" % number for number in numbers]


def test_records_wait_behind_an_open_transaction_and_follow_when_it_ends(matrix: Matrix) -> None:
    fleet = matrix.fleet
    for number in (0, 1):
        wait_values(fleet.west, WEST + content.OPEN, number, tens(0, 1, 2))
    matrix.records(content.CODEC)  # everything else of the matrix was copied meanwhile
    for number in (0, 1):
        assert values(fleet.west, WEST + content.OPEN, number) == tens(0, 1, 2)

    matrix.opened.to_commit.commit_transaction(ANSWER_S)
    matrix.opened.to_abort.abort_transaction(ANSWER_S)

    wait_values(fleet.west, WEST + content.OPEN, 0, tens(*range(10)))
    wait_values(fleet.west, WEST + content.OPEN, 1, tens(0, 1, 2, 7, 8, 9))
    assert fleet.judged([content.OPEN]).verdict is Verdict.PASS
