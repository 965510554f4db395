"""How long a worker keeps to what operators ask, whose clocks are other ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.ids import SourceOffset
from mirrorfleet.records.commands import LONGEST_MS, Action, Command
from mirrorfleet.slots.requests import Requests
from tests.unit.records.making import LINK, identity

NOW_MS = 1_000_000_000
LIFE_MS = 60_000


def asked(time_ms: int) -> Command:
    return Command(
        id="r1",
        action=Action.SKIP,
        identity=identity(),
        link=LINK,
        topic="orders",
        first=SourceOffset(4),
        end=SourceOffset(5),
        time_ms=time_ms,
        expires_ms=time_ms + LIFE_MS,
        writer="operator",
    )


@pytest.mark.parametrize("behind_ms", [-7_200_000, 0, 61_000, 7_200_000])
def test_a_request_lives_as_long_as_was_asked_whatever_the_operators_clock_says(
    behind_ms: int,
) -> None:
    requests, command = Requests(), asked(NOW_MS - behind_ms)

    requests.take(command, NOW_MS)

    assert requests.open_for(identity(), NOW_MS + LIFE_MS - 1) == command
    assert requests.open_for(identity(), NOW_MS + LIFE_MS) is None


def test_a_request_that_is_read_again_ends_when_it_would_have_ended() -> None:
    requests, command = Requests(), asked(NOW_MS)
    requests.take(command, NOW_MS)

    requests.take(command, NOW_MS + LIFE_MS - 1)
    assert requests.open_for(identity(), NOW_MS + LIFE_MS) is None

    requests.take(command, NOW_MS + LIFE_MS + 1)
    assert requests.open_for(identity(), NOW_MS + LIFE_MS + 2) is None


def test_no_request_lives_longer_than_readers_look_back() -> None:
    requests = Requests()

    requests.take(replace(asked(NOW_MS), expires_ms=NOW_MS + 10 * LONGEST_MS), NOW_MS)

    assert requests.open_for(identity(), NOW_MS + LONGEST_MS) is None
