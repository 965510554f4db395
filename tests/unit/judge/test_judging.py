"""What makes the judge doubt an exact copy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.judge import judging
from tests.judge.compare import Kind, compare
from tests.judge.judging import Copy, Pair, _compared, judge
from tests.judge.log import Log
from tests.judge.reading import ANSWERS, At, ClusterAccess, Ends, Order, Reading, ReadingError
from tests.judge.verdict import Counted, Demands, Finding, Report, Verdict, decide

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@pytest.mark.parametrize(
    ("told", "lost", "read"),
    [
        pytest.param((3, 3, 2), 0, 3, id="aborted records, handed out by chance"),
        pytest.param((3, 2), 0, 2, id="not when it is read alone"),
        pytest.param((3, 3, 3), 1, 3, id="lost"),
        pytest.param((2,), 0, 1, id="exact"),
    ],
)
def test_what_the_source_has_is_what_it_gives_in_answers_of_every_size(
    told: tuple[int, ...], lost: int, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose list of aborted transactions lacks one hands its records out."""
    sizes: list[int] = []
    given = iter(told)

    def judged(copy: Copy, portion: list[object], answer_bytes: int = 0) -> list[Finding]:
        del copy
        sizes.append(answer_bytes)
        target = log(3).without(1, 2)
        source = log(3) if next(given) == 3 else target
        return [replace(EXACT, anomalies=tuple(compare(source, target))) for _ in portion]

    monkeypatch.setattr(judging, "_judge_portion", judged)
    (found,) = judging._judged(COPY, [cast("judging._Task", None)])

    assert sum(each.count for each in found.anomalies) == lost
    assert sizes == [0, *ANSWERS][:read]


def test_what_an_answer_hands_out_twice_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that was aborted and sent again: its broker lists one aborted transaction too few."""
    readings = iter([log(3).followed_by(log(3)), log(3)])

    def judged(copy: Copy, portion: list[object], answer_bytes: int = 0) -> list[Finding]:
        del copy, portion, answer_bytes
        target = next(readings)
        found = tuple(compare(log(3), target))
        return [replace(EXACT, source_records=3, target_records=len(target), anomalies=found)]

    monkeypatch.setattr(judging, "_judge_portion", judged)
    (found,) = judging._judged(COPY, [cast("judging._Task", None)])

    assert found.anomalies == ()


def test_what_was_found_stays_found_when_it_cannot_be_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def judged(copy: Copy, portion: list[object], answer_bytes: int = 0) -> list[Finding]:
        del copy, portion
        if answer_bytes:
            raise ReadingError("west is away")
        return [replace(EXACT, anomalies=tuple(compare(log(3), log(3).without(1, 2))))]

    monkeypatch.setattr(judging, "_judge_portion", judged)
    (found,) = judging._judged(COPY, [cast("judging._Task", None)])

    assert found.anomalies
    assert found.doubts == ("west is away",)


def test_no_second_reading_that_has_more_than_the_first_makes_what_is_too_much_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mirror copied what was aborted; a broker hands that out when the source is read again."""
    readings = iter([2, 3, 2])

    def judged(copy: Copy, portion: list[object], answer_bytes: int = 0) -> list[Finding]:
        del copy, portion, answer_bytes
        source = log(next(readings))
        found = tuple(compare(source, log(3)))
        return [replace(EXACT, source_records=len(source), target_records=3, anomalies=found)]

    monkeypatch.setattr(judging, "_judge_portion", judged)
    (found,) = judging._judged(COPY, [cast("judging._Task", None)])

    assert [each.kind for each in found.anomalies] == [Kind.EXTRA]


class Clusters:
    """A source and an exact copy of it, two partitions of two records each, read one by one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sides = {side: ClusterAccess(side) for side in ("east", "west")}
        self.read: list[At] = []
        self.ends: dict[At, Ends] = {}
        """Of what does not end behind its two records."""
        self.late: dict[At, Ends] = {}
        """The same, once all was read."""
        monkeypatch.setattr(judging, "PORTION_RECORDS", 2)
        monkeypatch.setattr(judging, "is_append_time", lambda *_: False)
        monkeypatch.setattr(judging, "partitions_of", self.partitions_of)
        monkeypatch.setattr(judging, "ends_of", self.ends_of)
        monkeypatch.setattr(judging, "read_logs", self.read_logs)

    def partitions_of(self, access: ClusterAccess, topics: Sequence[str]) -> dict[str, list[int]]:
        del access
        return {topic: [0, 1] for topic in topics}

    def ends_of(self, access: ClusterAccess, partitions: Sequence[At]) -> dict[At, Ends]:
        del access
        told = self.ends | (self.late if At("east.orders", 1) in self.read else {})
        return {at: told.get(at, Ends(2, 2)) for at in partitions}

    def read_logs(
        self, access: ClusterAccess, partitions: Sequence[At], order: Order
    ) -> dict[At, Reading]:
        del order
        now = self.ends_of(access, partitions)
        self.read += partitions
        return {at: Reading(log(2), now[at], finished=True) for at in partitions}

    def judged(self, demands: Demands | None = None) -> Report:
        self.read.clear()
        east, west = self.sides.values()
        pairs = [Pair("orders", "east.orders")]
        return judge(Copy(source=east, target=west, pairs=pairs, patience_s=0.0), demands=demands)


@pytest.mark.parametrize("late", [Ends(5, 5), Ends(2, 5)], ids=["more", "more that is open"])
def test_a_copy_that_grows_while_other_portions_are_read_is_doubted(
    late: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = Clusters(monkeypatch)
    assert clusters.judged().verdict is Verdict.PASS
    assert [at.partition for at in clusters.read] == [0, 0, 0, 1, 1, 1], "two portions"

    clusters.late[At("east.orders", 0)] = late
    report = clusters.judged()

    assert (report.verdict, report.reasons) == (
        Verdict.UNKNOWN,
        ("east.orders-0: the target grew after it was judged, from 2 to 5",),
    )


def test_a_transaction_that_is_open_where_the_load_has_ended_is_doubted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What lies behind it is compared by nobody."""
    clusters = Clusters(monkeypatch)
    clusters.ends[At("orders", 1)] = Ends(2, 9)
    assert clusters.judged().verdict is Verdict.PASS, "who writes may go on"

    report = clusters.judged(Demands(counted={("orders", 1): Counted(2)}))

    assert (report.verdict, report.reasons) == (
        Verdict.UNKNOWN,
        ("orders-1: a transaction is open in the source",),
    )


def test_markers_that_are_written_a_moment_after_the_load_has_ended_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = At("orders", 1)
    given = iter([Ends(1, 2), Ends(1, 2)])
    monkeypatch.setattr(judging, "ends_of", lambda *_: {at: next(given, Ends(2, 2))})
    copy = cast("Copy", SimpleNamespace(source=None, patience_s=5.0))

    assert judging._left_open(copy, [at]) == []
