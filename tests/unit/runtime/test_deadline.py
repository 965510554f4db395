"""A deadline is shared by the steps that it is handed down to."""

from __future__ import annotations

from mirrorfleet.runtime.deadline import Deadline
from tests.fakes.clock import HandClock


def test_each_step_takes_what_the_last_one_left() -> None:
    clock = HandClock()
    deadline = Deadline(clock, 10)

    clock.seconds = 107.0

    assert deadline.remaining() == 3.0


def test_a_passed_deadline_leaves_nothing_and_never_less() -> None:
    clock = HandClock()
    deadline = Deadline(clock, 10)

    clock.seconds = 200.0

    assert deadline.remaining() == 0.0
