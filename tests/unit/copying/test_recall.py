"""Positions are read backwards, no further than the last snapshot, and the newest word stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.copying.recall import Recall
from mirrorfleet.core.errors import UnknownVersionError
from mirrorfleet.core.ids import ProducerIdentity, SourceOffset
from mirrorfleet.records.positions import (
    Barrier,
    Entry,
    Fence,
    Healed,
    Lifted,
    Position,
    Quarantine,
    Snapshot,
    encode,
    position_key,
)
from tests.unit.copying.making import identity

BARRIER = Barrier(owner="w1", producer=ProducerIdentity(7, 1), time_ms=9)
SNAPSHOT = Snapshot(count=2, time_ms=5)
FENCE = Fence(who="eve", reason="wrong data", time_ms=6)


def at(number: int, offset: int) -> Position:
    return Position(
        identity=identity(number),
        next_source=SourceOffset(offset),
        leader_epoch=0,
        next_target=0,  # type: ignore[arg-type]  # of no matter here
        records=offset,
        bytes=offset,
        time_ms=1,
    )


def window(found: Recall, *entries: Entry) -> list[bool]:
    """Read one window; the ones read before lie behind it."""
    seen = [found.take(*encode(entry)) for entry in entries]
    found.window_done()
    return seen


def test_the_read_ends_at_our_own_barrier_and_at_no_other() -> None:
    found = Recall(encode(BARRIER))
    assert window(found, replace(BARRIER, owner="w0"), at(0, 5), BARRIER) == [False, False, True]


def test_the_newest_position_stands_whatever_an_earlier_window_says() -> None:
    found = Recall(encode(BARRIER))
    window(found, at(0, 5), at(0, 6), BARRIER)
    window(found, at(0, 3), at(1, 4))
    assert found.positions() == {identity(0): at(0, 6), identity(1): at(1, 4)}


def test_nothing_before_a_snapshot_counts() -> None:
    found = Recall(encode(BARRIER))
    window(found, at(2, 1), FENCE, SNAPSHOT, at(0, 5), at(1, 4), at(0, 6), BARRIER)
    assert found.complete
    assert found.positions() == {identity(0): at(0, 6), identity(1): at(1, 4)}
    assert found.fence() is None


def test_a_fence_holds_until_it_is_lifted() -> None:
    fenced, lifted = Recall(None), Recall(None)
    window(fenced, at(0, 5))
    window(fenced, FENCE)
    window(lifted, FENCE, Lifted())
    assert (fenced.fence(), lifted.fence()) == (FENCE, None)


def test_the_owner_is_whom_the_newest_barrier_names_and_a_snapshot_repeats_it() -> None:
    nobody, former, newer = Recall(None), Recall(None), Recall(None)
    earlier = replace(BARRIER, owner="w0")
    window(former, SNAPSHOT, earlier, at(0, 5))
    window(newer, SNAPSHOT, earlier, at(0, 5), BARRIER)
    assert (nobody.owner(), former.owner(), newer.owner()) == ("", "w0", "w1")


def test_a_quarantine_holds_until_it_is_ended_and_is_not_hidden_by_a_snapshot_that_repeats_it() -> (
    None
):
    quarantine = Quarantine(owner="w0", producer=ProducerIdentity(8, 1), partitions=(), time_ms=4)
    held, ended, passed = Recall(None), Recall(None), Recall(None)
    window(held, quarantine, SNAPSHOT, quarantine, at(0, 5))
    window(ended, quarantine, Healed())
    window(passed, quarantine, SNAPSHOT, at(0, 5))
    assert (held.quarantine(), ended.quarantine(), passed.quarantine()) == (quarantine, None, None)


def test_an_unknown_version_stops_us_unless_it_was_overwritten_since() -> None:
    newer = (position_key(identity(0)), b"\x02")
    found = Recall(None)
    found.take(*newer)
    found.window_done()
    with pytest.raises(UnknownVersionError):
        found.positions()
    overwritten = Recall(None)
    overwritten.take(*newer)
    overwritten.take(*encode(at(0, 5)))
    overwritten.window_done()
    assert overwritten.positions() == {identity(0): at(0, 5)}
