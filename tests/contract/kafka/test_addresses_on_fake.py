"""Brokers behind a name of several addresses, and brokers that have all moved."""

from __future__ import annotations

import asyncio
import random
import socket
from dataclasses import replace

import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings, Security
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka import aiokafka_options, dialing
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.control import ControlTail
from mirrorfleet.kafka.dialing import Address
from tests.contract.kafka.test_logins_on_fake import LoginBroker, settings
from tests.fakes.broker import METADATA, FakeBroker, stay_silent

DROPS = "192.0.2.1"


async def test_a_broker_is_found_behind_an_address_that_drops_packets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    def look_up(host: str, port: int) -> list[Address]:
        assert host == "kafka.example"
        found = (DROPS, "127.0.0.1")
        return [Address(socket.AF_INET, socket.SOCK_STREAM, 0, (at, port)) for at in found]

    async def sock_connect(made: socket.socket, address: tuple[str, int]) -> None:
        if address[0] == DROPS:
            await asyncio.Event().wait()
        await connect(made, address)

    async with FakeBroker() as broker:
        monkeypatch.setattr(dialing, "_look_up", look_up)
        monkeypatch.setattr(loop, "sock_connect", sock_connect)
        settings = ClusterSettings(
            alias=ClusterAlias("fake"),
            bootstrap=(f"kafka.example:{broker.address[1]}",),
            connect_timeout_s=1.0,
        )
        async with Cluster(settings) as cluster:
            assert cluster.cluster_id == "fake-cluster"


async def test_a_follower_finds_brokers_that_have_all_moved_where_another_client_saw_them() -> None:
    async with asyncio.timeout(20), LoginBroker() as old, LoginBroker() as new:
        known = settings(old, Security())
        async with Cluster(known) as cluster, ControlTail(known, "t") as tail:
            old.records.append(b"before")
            assert (await anext(tail)).value == b"before"

            old.brokers = new.brokers  # it moves, and one of two clients is told
            await cluster.metadata(())
            new.records += [b"before", b"after"]
            await old.die()
            assert (await anext(tail)).value == b"after"


async def test_a_cluster_is_found_where_another_client_saw_it_last() -> None:
    async with asyncio.timeout(20), FakeBroker() as old, FakeBroker() as new:
        known = settings(old, Security())
        async with Cluster(known) as before, Cluster(known) as after:
            old.brokers = new.brokers
            await before.metadata(())
            await old.die()
            await after.metadata(())
            assert after.brokers[1].port == new.address[1]


async def test_a_follower_tries_the_next_address_soon_when_one_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A frozen broker takes connections and never answers. Within a request's time-out all are
    tried: it was as long as what each address was given, so the first silent one used it up.
    """
    held: list[asyncio.StreamWriter] = []
    monkeypatch.setattr(random, "shuffle", lambda _: None)
    monkeypatch.setattr(aiokafka_options, "ADDRESS_S", 0.3)

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with LoginBroker() as broker, await asyncio.start_server(hold, "127.0.0.1") as frozen:
        broker.records.append(b"there")
        silent = f"127.0.0.1:{frozen.sockets[0].getsockname()[1]}"
        known = settings(broker, Security(), request_timeout_s=5.0)
        known = replace(known, bootstrap=(silent, *known.bootstrap))
        async with asyncio.timeout(10), ControlTail(known, "t") as tail:
            assert (await anext(tail)).value == b"there"
        assert held
        for writer in held:
            writer.close()


async def test_a_connection_ends_when_its_broker_is_elsewhere_though_its_address_answers() -> None:
    """Another broker of the cluster has the address now, as a pod may: it leads nothing of ours."""
    async with FakeBroker() as one, FakeBroker() as other:
        one.brokers = {1: one.address}
        async with Cluster(settings(one, Security())) as cluster:
            lane = await cluster.connect(1, purpose="a test")
            await cluster.metadata(())
            before = lane.closed

            one.brokers = other.brokers = {1: other.address}
            await cluster.metadata(())
            assert (before, lane.closed) == (False, True)
            again = await cluster.connect(1, purpose="a test")
            assert again.peer.startswith(f"127.0.0.1:{other.address[1]}")


class InOrder:
    """Draws the brokers in the order of their ids."""

    def __init__(self) -> None:
        self._drawn = 0

    def uniform(self, low: float, high: float) -> float:
        self._drawn += 1
        return low + (high - low) * self._drawn / 1_000


@pytest.mark.parametrize("deadline_s", [0.5, 2.0])
async def test_a_silent_broker_costs_a_question_its_share_and_nobody_a_connection(
    deadline_s: float,
) -> None:
    async with FakeBroker() as one, FakeBroker() as two, FakeBroker() as three:
        brokers = {number: each.address for number, each in enumerate((one, two, three), 1)}
        for each in (one, two, three):
            each.brokers = brokers
        async with Cluster(settings(one, Security()), dice=InOrder()) as cluster:
            shared = [await cluster.shared(node) for node in brokers]
            one.then(METADATA, stay_silent)
            await cluster.metadata((), deadline_s=deadline_s)

            assert one.asked(METADATA)
            assert two.asked(METADATA)
            assert [each.closed for each in shared] == [False] * 3
