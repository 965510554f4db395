"""Slots stand still between faults no longer than they may, and a silent source proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tests.integration.workers import fleet
from tests.integration.workers.fleet import MOVE_S, TAKE_OVER_S, Fault, Workers
from tests.judge.reading import At
from tests.judge.stalls import Line, Span

if TYPE_CHECKING:
    from services.local.region import Region

EVERY_MS = 300
END_MS = 100_000
JOIN = Fault("join", Span(10_000, 15_000), MOVE_S, None)
KILL = Fault("kill", Span(50_000, 63_000), TAKE_OVER_S, None)
CALM, LAST = "between join and kill", "between kill and the end of the load"
ALL = range(0, END_MS, EVERY_MS)


def copied(*gaps: Span) -> list[int]:
    """Commits a moment after the source showed something, but in gaps."""
    return [ms + 50 for ms in ALL if not any(gap.begin_ms < ms < gap.end_ms for gap in gaps)]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> dict[int, Line]:
    """Of partitions that are not as the others."""
    found: dict[int, Line] = {}

    def line_of(at: At, *_: object) -> Line:
        copy = At(f"east.{at.topic}", at.partition)
        return found.get(at.partition, Line(copy, ALL, copied()))

    monkeypatch.setattr(fleet, "line_of", line_of)
    monkeypatch.setattr(fleet, "data_directories", lambda _: [])
    monkeypatch.setattr(fleet, "timelines", lambda *_: [])
    return found


def told() -> list[str]:
    workers = object.__new__(Workers)
    workers.east = workers.west = cast("Region", None)
    workers.name, workers.topic, workers.owners = "calm", "orders", {}
    workers.faults, workers.ended_ms = [JOIN, KILL], END_MS
    return [text.partition(", median")[0] for text in workers.told()]


def gap(since_ms: int, most_s: float, *, is_too_long: bool = True) -> Span:
    """Three seconds longer than is allowed, or one shorter."""
    return Span(since_ms, since_ms + int(most_s * 1000) + (3_000 if is_too_long else -1_000))


@pytest.mark.usefixtures("lines")
def test_where_nothing_stands_nothing_is_told() -> None:
    assert told() == []


@pytest.mark.parametrize(
    ("stands", "found"),
    [
        (gap(25_000, MOVE_S), [f"{CALM}: longest stall"]),
        (gap(65_000, MOVE_S), [f"{LAST}: longest stall"]),
        (gap(35_000, MOVE_S, is_too_long=False), []),
        (gap(14_500, MOVE_S), ["join, kept slots: longest stall"]),
        (gap(49_000, MOVE_S), ["kill, kept slots: longest stall"]),
    ],
    ids=[
        "after a move",
        "after a take-over",
        "not too long",
        "since the fault before: the fault's own",
        "to the fault behind: that one's own",
    ],
)
def test_a_slot_that_stands_between_faults_is_told(
    lines: dict[int, Line], stands: Span, found: list[str]
) -> None:
    lines[3] = Line(At("east.orders", 3), ALL, copied(stands))
    texts = told()
    assert [text.rpartition(" stall ")[0] + " stall" for text in texts] == found
    assert all("(east.orders-3)" in text for text in texts)


@pytest.mark.parametrize(
    ("nothing", "what"), [(Span(14_000, 51_000), CALM), (Span(49_000, 64_000), "kill")]
)
def test_a_source_that_shows_nothing_proves_nothing(
    lines: dict[int, Line], nothing: Span, what: str
) -> None:
    shown = [ms for ms in ALL if not nothing.begin_ms < ms < nothing.end_ms]
    lines[5] = Line(At("east.orders", 5), shown, copied(nothing))
    assert told() == [f"{what}: the source of east.orders-5 showed nothing"]
