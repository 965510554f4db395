"""How far away a broker is, as its answers about versions tell."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Iterator

import pytest

from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.opening import negotiate, time_again
from tests.unit.kafka.transport import MemoryTransport, answer

ACCEPTED = b"\0\0\1\0\0\0\0\0"
REFUSED = b"\0\x23\0\0\0\0"
"""UNSUPPORTED_VERSION, and no versions, in the form of v0."""


class Broker(MemoryTransport):
    """Knows ApiVersions up to `newest`; its answers take so many seconds of a clock of its own."""

    def __init__(self, newest: int, takes: Iterator[float]) -> None:
        super().__init__()
        self.now = 0.0
        self.asked: list[int] = []
        self.connection = Connection("b:9092", "me")
        self.connection.connection_made(self)
        self._newest, self._takes = newest, takes

    def writelines(self, list_of_data: Iterable[object]) -> None:
        super().writelines(list_of_data)
        _, _, version, correlation = struct.unpack_from(">ihhi", self.written)
        self.parts.clear()
        self.asked.append(version)
        self.now += next(self._takes)
        known = version <= self._newest
        answer(self.connection, correlation, ACCEPTED if known else REFUSED)


def broker(monkeypatch: pytest.MonkeyPatch, newest: int, *takes: float) -> Broker:
    made = Broker(newest, iter(takes))
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: made.now)
    return made


async def test_a_broker_that_was_only_slow_at_first_is_not_taken_for_far_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = broker(monkeypatch, 4, 60.0, 0.02, 0.01)
    await negotiate(slow.connection, 99.0)
    assert slow.connection.rtt_s == 60.0

    await time_again(slow.connection, 99.0)

    assert slow.asked == [4, 4, 4]
    assert slow.connection.rtt_s == pytest.approx(0.01)


async def test_a_version_that_is_refused_takes_a_round_trip_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = broker(monkeypatch, 3, *[0.01] * 6)
    await negotiate(old.connection, 99.0)
    assert old.asked == [4, 3]
    assert old.connection.rtt_s == pytest.approx(0.01)

    await time_again(old.connection, 99.0)

    assert old.connection.rtt_s == pytest.approx(0.01)
