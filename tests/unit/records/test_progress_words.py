"""The words for the state of a partition: those that read progress were built at other times."""

from __future__ import annotations

from mirrorfleet.copying.partition import Pace
from mirrorfleet.records import progress


def test_the_states_of_a_partition_are_these_words() -> None:
    words = progress.FAULTED, progress.STARTING, progress.PAUSED, progress.WAITING
    assert words == ("faulted", "starting", "paused", "waiting")
    assert (progress.CATCH_UP, progress.UNREACHABLE) == ("catch-up", "unreachable")
    assert progress.THROTTLED == "throttled"


def test_the_paces_of_a_partition_are_these_words() -> None:
    assert [pace.value for pace in Pace] == ["live", "catch-up"]
