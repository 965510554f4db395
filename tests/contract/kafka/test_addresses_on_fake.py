"""A name of several addresses, of which one is a broker's."""

from __future__ import annotations

import asyncio
import socket

import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.cluster import Cluster
from tests.fakes.broker import FakeBroker

DROPS = "192.0.2.1"


async def test_a_broker_is_found_behind_an_address_that_drops_packets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def getaddrinfo(host: object, port: int, **_: object) -> list[object]:
        found = (DROPS, "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (at, port)) for at in found]

    async def sock_connect(made: socket.socket, address: tuple[str, int]) -> None:
        if address[0] == DROPS:
            await asyncio.Event().wait()
        await connect(made, address)

    async with FakeBroker() as broker:
        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(loop, "sock_connect", sock_connect)
        settings = ClusterSettings(
            alias=ClusterAlias("fake"),
            bootstrap=(f"kafka.example:{broker.address[1]}",),
            connect_timeout_s=1.0,
        )
        async with Cluster(settings) as cluster:
            assert cluster.cluster_id == "fake-cluster"
