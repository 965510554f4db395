from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.copying.limits import FarLine, Limit, Limits, Look, limit_of, look_at
from mirrorfleet.copying.partition import Pace, SourceEnds
from mirrorfleet.copying.urgency import Urgency
from mirrorfleet.core.ids import SlotNumber
from tests.unit.copying.making import partition_of, slot

IDLE = Look(partitions=8, behind=0, waiting=0, memory=0.1, cpu=0.1, line=None)
BEHIND = IDLE._replace(behind=4)
FAR = FarLine(rtt_s=0.1, connections=20, most=48, bytes_s=40e6)


@pytest.mark.parametrize(
    ("look", "limit"),
    [
        (IDLE._replace(cpu=0.99), Limit.NOTHING),
        (IDLE._replace(held=2, cpu=0.99), Limit.URGENT),
        (IDLE._replace(away=8, cpu=0.99), Limit.UNREACHABLE),
        (IDLE._replace(away=8, held=1), Limit.URGENT),
        (BEHIND._replace(away=4, cpu=0.99), Limit.CPU),
        (BEHIND._replace(held=2), Limit.SOURCE),
        (BEHIND._replace(cpu=0.85, waiting=4), Limit.CPU),
        (BEHIND._replace(waiting=3, memory=0.95), Limit.TARGET),
        (BEHIND._replace(waiting=2), Limit.SOURCE),
        (BEHIND._replace(behind=1), Limit.PARTITION),
        (BEHIND._replace(behind=1, partitions=1), Limit.SOURCE),
        (BEHIND._replace(line=FarLine(0.1, 48, 48, 96e6), memory=0.95), Limit.WINDOW),
        (BEHIND._replace(line=FAR, memory=0.95), Limit.MEMORY),
        (BEHIND._replace(line=FAR), Limit.ROUND_TRIP),
        (BEHIND._replace(line=replace(FAR, is_crowded=True)), Limit.WINDOW),
    ],
)
def test_each_limit_is_known_by_what_waits_and_what_does_not(look: Look, limit: Limit) -> None:
    assert limit_of(look) is limit


def test_most_of_the_last_ten_looks_decide_with_the_figures_of_the_newest() -> None:
    limits = Limits()
    for _ in range(10):
        limits.looked(BEHIND._replace(waiting=4))
    for cpu in (0.90, 0.91, 0.92, 0.93, 0.94, 0.97):
        limits.looked(BEHIND._replace(cpu=cpu))

    assert limits.found() == (Limit.CPU, "the worker uses 97% of a core: add a worker")


def test_the_window_is_told_in_bytes_a_round_trip() -> None:
    limits = Limits()
    limits.looked(BEHIND._replace(line=FarLine(rtt_s=0.1, connections=48, most=48, bytes_s=96e6)))

    assert limits.found().why == (
        "each of 48 connections brings 200 KB in a round trip of 100 ms: raise"
        " socket.send.buffer.bytes of the source, or fetch_connections"
    )


def test_where_a_larger_setting_would_not_be_heeded_it_is_no_remedy() -> None:
    limits = Limits()
    limits.looked(BEHIND._replace(line=FarLine(0.1, 48, 48, bytes_s=96e6, is_capped=True)))

    assert limits.found().why == (
        "each of 48 connections brings 200 KB in a round trip of 100 ms: raise"
        " socket.send.buffer.bytes of the source"
    )


def test_connections_that_other_slots_have_are_told_and_not_that_more_bring_nothing() -> None:
    limits = Limits()
    limits.looked(BEHIND._replace(line=FarLine(0.1, 4, 48, bytes_s=8e6, is_crowded=True)))

    assert limits.found().why == (
        "each of 4 connections brings 200 KB in a round trip of 100 ms, other slots have the rest"
        " of 48: raise socket.send.buffer.bytes of the source, or fetch_connections"
    )


def test_backlog_that_waits_for_a_more_urgent_one_is_no_fault_of_the_source() -> None:
    urgency = Urgency()
    urgency.note(SlotNumber(1), 0)
    waiting = slot(urgency=urgency)
    partition = partition_of(waiting)
    partition.source, partition.pace = SourceEnds(100, 100, 0), Pace.CATCH_UP
    limits = Limits()

    limits.looked(look_at(waiting, [], memory=0.1, cpu=0.1))

    assert limits.found() == (
        Limit.URGENT,
        "1 partitions behind wait: the worker has a more urgent backlog",
    )


@pytest.mark.parametrize("end", [-1, 0, 100], ids=["never read", "was live", "was behind"])
def test_what_nobody_can_read_is_neither_copied_nor_behind(end: int) -> None:
    cut_off = slot()
    partition_of(cut_off).source = SourceEnds(end, end, 0)
    partition_of(cut_off).away_since = 5.0
    limits = Limits()

    limits.looked(look_at(cut_off, [], memory=0.1, cpu=0.1))

    assert limits.found() == (
        Limit.UNREACHABLE,
        (
            "the source's brokers do not answer for 1 of 1 partitions; what else it has is copied"
            " as it comes"
        ),
    )


def test_before_the_first_look_nothing_is_known() -> None:
    assert Limits().found() == (Limit.NOTHING, "not looked at yet")


def test_a_partition_is_behind_when_the_source_has_more_than_was_walked() -> None:
    made = slot()
    partition_of(made).source = SourceEnds(100, 100, 0)
    line = FarLine(0.1, 3, 48)

    look = look_at(made, [FarLine(0.02, 2, 48), line], memory=0.5, cpu=0.25)

    assert look == Look(1, 1, 0, 0.5, 0.25, line)
