"""How the service hears the mirror."""

from __future__ import annotations

import pytest

from mirrorfleet.lagging.board import Place
from mirrorfleet.records import progress, traces
from services.lag.service import LagService
from tests.unit.lagging.making import SLOT, entry, said, snapshot
from tests.unit.records.making import LINK
from tests.unit.standby.test_demotion import Fleet

HOUR_MS = 3_600_000


def test_what_a_worker_says_is_heard_when_it_comes_whatever_its_clock_says() -> None:
    context = Fleet().context
    now_ms = context.clock.now_ms()
    service = LagService(context)
    board = service._board
    board.want([entry(0)], now_ms)
    board.hold(SLOT, (), now_ms)

    for offset, off_ms in enumerate((HOUR_MS, -HOUR_MS)):
        written = progress.encode(snapshot(now_ms + off_ms, said(10 + offset)))
        service._hear(*written, SLOT, Place(offset, now_ms))

        heard_ms = board.heard_ms(LINK)
        assert heard_ms is not None
        assert now_ms <= heard_ms <= context.clock.now_ms()
        assert [lag.progress.next_source for lag in board if lag.progress] == [10 + offset]


@pytest.mark.parametrize("record", [traces.encode(SLOT, []), (b"junk", b""), (None, None)])
def test_whatever_comes_of_a_slot_shows_that_it_is_heard(
    record: tuple[bytes | None, bytes | None],
) -> None:
    service = LagService(Fleet().context)
    hearing = service._board.hearing
    hearing.came(SLOT, 0)
    hearing.ended(SLOT, 2)
    assert hearing.lacks(SLOT)

    service._hear(*record, SLOT, Place(1, 0))

    assert not hearing.lacks(SLOT)


def test_workers_of_which_more_is_written_than_we_heard_are_not_told_as_silent() -> None:
    context = Fleet().context
    now_ms = context.clock.now_ms()
    service = LagService(context)
    board, reasons = service._board, context.health.reasons
    board.want([entry(0)], now_ms)
    board.hold(SLOT, (), now_ms)
    board.heard(snapshot(now_ms - HOUR_MS, said(1)), now_ms, Place(1, now_ms - HOUR_MS))
    board.hearing.came(SLOT, 1)
    (link,) = service._links.values()

    link.check()
    assert "silent for" in reasons()[f"progress {LINK}"]

    board.hearing.ended(SLOT, 5)
    link.check()
    assert f"progress {LINK}" not in reasons()
