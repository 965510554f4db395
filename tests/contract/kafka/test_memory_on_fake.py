"""A process that has no memory left loses connections, and says so: it does not end."""

from __future__ import annotations

import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.errors import NoMemoryError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka import connection
from mirrorfleet.kafka.opening import TcpConnector
from tests.fakes.broker import FakeBroker


async def test_no_memory_for_a_connection_is_an_error_that_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none() -> None:
        raise MemoryError

    monkeypatch.setattr(connection, "FrameReader", none)
    async with FakeBroker() as broker:
        host, port = broker.bootstrap.split(":")
        settings = ClusterSettings(alias=ClusterAlias("fake"), bootstrap=(broker.bootstrap,))
        with pytest.raises(NoMemoryError, match="no memory for a connection to") as caught:
            await TcpConnector(settings).open(host, int(port))
    assert caught.value.retriable
