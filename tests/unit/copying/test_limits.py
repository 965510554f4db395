from __future__ import annotations

import pytest

from mirrorfleet.copying.limits import FarLine, Limit, Limits, Look, limit_of, look_at
from mirrorfleet.copying.partition import SourceView
from tests.unit.copying.making import slot

IDLE = Look(partitions=8, behind=0, waiting=0, memory=0.1, cpu=0.1, line=None)
BEHIND = IDLE._replace(behind=4)
FAR = FarLine(rtt_s=0.1, connections=20, most=48, bytes_s=40e6)


@pytest.mark.parametrize(
    ("look", "limit"),
    [
        (IDLE._replace(cpu=0.99), Limit.NOTHING),
        (BEHIND._replace(cpu=0.85, waiting=4), Limit.CPU),
        (BEHIND._replace(waiting=3, memory=0.95), Limit.TARGET),
        (BEHIND._replace(waiting=2), Limit.SOURCE),
        (BEHIND._replace(behind=1), Limit.PARTITION),
        (BEHIND._replace(behind=1, partitions=1), Limit.SOURCE),
        (BEHIND._replace(line=FarLine(0.1, 48, 48, 96e6), memory=0.95), Limit.WINDOW),
        (BEHIND._replace(line=FAR, memory=0.95), Limit.MEMORY),
        (BEHIND._replace(line=FAR), Limit.ROUND_TRIP),
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


def test_before_the_first_look_nothing_is_known() -> None:
    assert Limits().found() == (Limit.NOTHING, "not looked at yet")


def test_a_partition_is_behind_when_the_source_has_more_than_was_walked() -> None:
    partitions = list(slot().partitions.values())
    partitions[0].source = SourceView(100, 100, 0)
    line = FarLine(0.1, 3, 48)

    look = look_at(partitions, [FarLine(0.02, 2, 48), line], memory=0.5, cpu=0.25)

    assert look == Look(len(partitions), len(partitions), 0, 0.5, 0.25, line)
