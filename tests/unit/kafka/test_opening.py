from __future__ import annotations

import pytest

from mirrorfleet.kafka import opening
from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.versions import ApiVersions


async def test_a_broker_that_was_only_slow_at_first_is_not_taken_for_far_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    async def negotiate(connection: Connection, _deadline_s: float) -> ApiVersions:
        asked.append(connection.peer)
        return ApiVersions(connection.peer, {})

    monkeypatch.setattr(opening, "negotiate", negotiate)
    connection = Connection("broker:9092", "test")
    connection.rtt_s = 60.0

    await opening.time_again(connection, 1.0)

    assert asked == ["broker:9092", "broker:9092"]
    assert 0 <= connection.rtt_s < 10.0
