"""What lies before the first record of a copy is asked once, and as often as nobody answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError
from mirrorfleet.mapping import before_copies
from mirrorfleet.mapping.before_copies import BeforeCopies
from mirrorfleet.offsets.late import LateCopies
from tests.unit.offsets.test_homes import COPY, point
from tests.unit.offsets.test_late import LATE, copies

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.cluster import Cluster


class Target:
    """Its first committed records, and what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *offsets: int) -> None:
        self.offsets = list(offsets)
        self.error: MirrorfleetError | None = None
        self.asked: list[int] = []
        self.before = BeforeCopies(cast("Cluster", self))
        monkeypatch.setattr(before_copies, "first_committed", self.first_committed)

    async def first_committed(self, _: Cluster, at: TopicPartition, start: int, end: int) -> int:
        assert (at, end) == (COPY, 500)
        self.asked.append(start)
        if self.error is not None:
            raise self.error
        return next(offset for offset in [*self.offsets, 500] if offset >= start)

    async def looked(self, start: int, groups: int = 2) -> list[bool]:
        late = LateCopies(copies(LATE), {COPY: start})
        found = [await self.before.late(late, [point(500, 10)]) for _ in range(groups)]
        return [one == {COPY: start} for one in found]


async def test_a_copy_behind_aborted_records_only_is_not_late_and_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target(monkeypatch)

    assert [await target.looked(start) for start in (0, 100)] == [[False, False]] * 2
    assert target.asked == [0]


async def test_a_copy_behind_records_of_others_is_late_until_retention_took_these(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target(monkeypatch, 40, 90)

    found = [await target.looked(start) for start in (0, 40, 41, 90, 91, 92)]

    assert found == [[True, True]] * 4 + [[False, False]] * 2
    assert target.asked == [0, 41, 91]


@pytest.mark.parametrize(
    "error",
    [DeadlineError("gave up"), BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "west")],
    ids=["silent", "refused"],
)
async def test_a_copy_that_does_not_answer_is_late_and_asked_once_a_look(
    monkeypatch: pytest.MonkeyPatch, error: MirrorfleetError
) -> None:
    target = Target(monkeypatch)
    target.error = error

    assert [await target.looked(0) for _ in range(2)] == [[True, True]] * 2
    assert target.asked == [0, 0]
    target.error = None
    assert await target.looked(0) == [False, False]
