"""How the service hears the mirror."""

from __future__ import annotations

from mirrorfleet.lagging.board import Place
from mirrorfleet.records import progress
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
        service._hear(*written, Place(offset, now_ms))

        heard_ms = board.heard_ms(LINK)
        assert heard_ms is not None
        assert now_ms <= heard_ms <= context.clock.now_ms()
        assert [lag.progress.next_source for lag in board if lag.progress] == [10 + offset]
