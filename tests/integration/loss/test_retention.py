"""Retention overtakes the position: each policy, and each way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.loss.conftest import frozen
from tests.integration.mirror.making import create, delete_before
from tests.judge.reading import At
from tests.judge.verdict import Verdict

if TYPE_CHECKING:
    import pytest

    from tests.integration.loss.conftest import Drill
    from tests.integration.loss.neighbours import Neighbours

FAIL, GAP, COPY = "ls-fail-retention", "ls-gap-retention", "ls-copy-retention"
CAUSE = "retention-overtook"


def overtake(drill: Drill, *topics: str) -> None:
    """Delete [100, 150) of partition 0 while the worker cannot see it."""
    for topic in topics:
        create(drill.fleet.east, topic, 2)
        drill.fill(topic, 0, 100)
        drill.fill(topic, 0, 100, partition=1)
    for topic in topics:
        drill.wait_copied(topic, [range(100)])
    drill.remember(*topics)
    with frozen(drill.mirror):
        for topic in topics:
            drill.fill(topic, 100, 200)
            drill.fill(topic, 100, 120, partition=1)
            delete_before(drill.fleet.east, topic, 0, 150)


def check_policies(drill: Drill) -> None:
    """`record-gap` goes on at the new log start; the others stop with the exact range."""
    drill.wait_copied(GAP, [range(100), range(150, 200)])
    assert drill.wait_ledger(GAP) == [("gap", 0, 100, 150, CAUSE)]
    for topic in (FAIL, COPY):
        assert drill.fault(topic) == (
            f"{CAUSE} at source offset 100: source records [100, 150) were deleted before they"
            " were copied"
        )
        assert drill.wait_ledger(topic, 1, "partition-faulted") == [
            ("partition-faulted", 0, 100, 150, CAUSE)
        ]
        drill.wait_copied(topic, [range(120)], partition=1)  # its neighbour has not noticed
    (gap,) = [one for one in drill.fleet.events("gap") if one["topic"] == GAP]
    assert gap["first_time_ms"] <= gap["last_time_ms"]  # type: ignore[operator]  # JSON numbers


def check_refusals(drill: Drill, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what stands there can be accepted, and only where something stands."""
    drill.wait_told(FAIL, 100)
    assert drill.run("resolve", f"{FAIL}-0", "--accept-gap", "100..140") == 1
    assert "what it stands at is 100..150, not 100..140" in capsys.readouterr().err
    drill.refuse_skip(FAIL, capsys)
    assert drill.run("resolve", f"{FAIL}-1", "--seek", "5") == 1
    assert "does not stand still" in capsys.readouterr().err
    drill.wait_copied(FAIL, [range(100)])


def check_requests(drill: Drill) -> None:
    """Behind what is lost, or farther."""
    assert drill.run("resolve", f"{FAIL}-0", "--accept-gap", "100..150") == 0
    drill.wait_copied(FAIL, [range(100), range(150, 200)])
    assert drill.ledger(FAIL) == [("gap", 0, 100, 150, CAUSE)]
    drill.wait_told(COPY, 100)
    assert drill.run("resolve", f"{COPY}-0", "--seek", "160") == 0
    drill.wait_copied(COPY, [range(100), range(160, 200)])
    assert drill.ledger(COPY) == [("gap", 0, 100, 160, CAUSE)]


def test_what_retention_took_stops_or_is_passed_and_always_told(
    drill: Drill, neighbours: Neighbours, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = (FAIL, GAP, COPY)
    overtake(drill, *topics)
    with neighbours.undisturbed("retention overtook"):
        check_policies(drill)
        check_refusals(drill, capsys)
        check_requests(drill)

    for topic in topics:
        del drill.before[At(topic, 1)]  # the source still has all of it
    report = drill.judged(topics, gaps={At(COPY, 0): [(150, 160)]})
    assert report.verdict is Verdict.PASS
