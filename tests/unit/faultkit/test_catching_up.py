"""Which caught up first is told by when each was seen, not by when the wait for both was over."""

from __future__ import annotations

import pytest

from tests.faultkit.catching_up import CatchingUp


def test_live_partitions_that_are_current_while_backlog_is_left_came_first() -> None:
    it = CatchingUp()
    assert not it.seen(10, live=True, bulk=False, left=500, eta_s=30)
    assert it.seen(40, live=True, bulk=True, left=0, eta_s=None)
    assert it.live_first()
    assert (it.live_s, it.left_then, it.bulk_s) == (10, 500, 40)


@pytest.mark.parametrize("together", [True, False])
def test_live_partitions_that_waited_for_the_backlog_did_not_come_first(*, together: bool) -> None:
    it = CatchingUp()
    assert it.seen(10, live=together, bulk=True, left=0, eta_s=None) is together
    assert it.seen(12, live=True, bulk=True, left=0, eta_s=None)
    assert not it.live_first()


def test_an_eta_is_held_against_when_the_backlog_was_really_done() -> None:
    it = CatchingUp()
    assert it.eta_error() is None
    for now, eta in ((10, 500), (60, 44), (70, 33), (90, 5)):
        it.seen(now, live=True, bulk=False, left=9, eta_s=eta)
    it.seen(100, live=True, bulk=True, left=0, eta_s=None)
    assert it.eta_error() == pytest.approx(0.1)
