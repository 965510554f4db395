from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from aiokafka import client as clients
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
)
from aiokafka.protocol.metadata import MetadataRequest_v1, MetadataRequest_v5
from aiokafka.structs import BrokerMetadata

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism, Protocol, Security
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.aiokafka_options import Reach, client_options, keep_up
from services.install.authority import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HOST = "127.0.0.1"


def test_no_client_has_brokers_make_the_topics_that_it_asks_about() -> None:
    asked = clients.MetadataRequest(["gone"])
    assert asked.build(MetadataRequest_v5).to_object() == {
        "topics": ["gone"],
        "allow_auto_topic_creation": False,
    }
    assert asked.build(MetadataRequest_v1).to_object() == {"topics": ["gone"]}


async def test_the_password_is_read_for_each_connection_and_the_last_one_kept_without_a_file(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "password"
    secret.write_text("first")
    security = Security(
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.SCRAM_SHA_512,
        username="mirror",
        password_file=str(secret),
    )
    settings = ClusterSettings(
        alias=ClusterAlias("west"), bootstrap=("127.0.0.1:1",), security=security
    )
    client = AIOKafkaClient(**client_options(settings))
    keep_up(client, settings)

    read = []
    for held in ("", "first", "", "second", "", None):
        secret.unlink()
        if held is not None:
            secret.write_text(held)
        read.append(client._sasl_plain_password)

    assert read == ["first", "first", "first", "second", "second", "second"]


class Listener:
    """Takes clients of one authority, and asks them nothing but their certificates."""

    def __init__(self, authority: Authority) -> None:
        broker = authority.issue("broker", (HOST,), timedelta(days=1))
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(broker)
        self._context.load_verify_locations(authority.ca_file)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self.taken: list[str] = []

    @asynccontextmanager
    async def at(self, port: int) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._take, HOST, port, ssl=self._context)
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _take(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (((_, name),),) = writer.get_extra_info("peercert")["subject"]
        self.taken.append(name)
        writer.close()


async def test_renewed_certificates_are_used_by_the_next_connection(tmp_path: Path) -> None:
    before, after = Authority(tmp_path / "before"), Authority(tmp_path / "after")
    first = before.issue("first", (), timedelta(days=1))
    second = after.issue("second", (), timedelta(days=1))
    old, new = Listener(before), Listener(after)
    security = Security(protocol=Protocol.SSL, ca_file=str(before.ca_file), cert_file=str(first))

    async with old.at(0) as port:
        settings = ClusterSettings(
            alias=ClusterAlias("west"), bootstrap=(f"{HOST}:{port}",), security=security
        )
        client = AIOKafkaClient(**client_options(settings))
        keep_up(client, settings)
        with pytest.raises(KafkaConnectionError):
            await client.bootstrap()
    after.ca_file.replace(before.ca_file)
    second.replace(first)
    async with new.at(port):
        with pytest.raises(KafkaConnectionError):
            await client.bootstrap()

    assert (old.taken, new.taken) == (["first"], ["second"])


LOST = RuntimeError(
    "unable to perform operation on <TCPTransport closed=True>; the handler is closed"
)
"""What uvloop has for a write on a connection that was reset since the loop looked last."""


class JustLost:
    """A connection of aiokafka's that does not know yet that it was reset."""

    def __init__(self, transport: object) -> None:
        self._writer = SimpleNamespace(transport=transport)

    def connected(self) -> bool:
        return True

    def send(self, *_: object, **__: object) -> None:
        raise LOST


def kept_up(reach: Reach | None = None) -> AIOKafkaClient:
    settings = ClusterSettings(alias=ClusterAlias("west"), bootstrap=(f"{HOST}:1",))
    client = AIOKafkaClient(**client_options(settings))
    keep_up(client, settings, reach)
    return client


async def test_nothing_is_written_to_a_connection_that_was_reset_a_moment_ago() -> None:
    client = kept_up()
    lost = JustLost(SimpleNamespace(is_closing=lambda: True))
    client._conns[1, ConnectionGroup.DEFAULT] = lost

    with pytest.raises(NodeNotReadyError):
        await client.send(1, object())


async def test_a_connection_that_is_reset_before_its_first_request_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def connect(*_: object, **__: object) -> None:
        raise LOST

    client = kept_up()
    client.cluster.broker_metadata = lambda _: BrokerMetadata(1, HOST, 1, None)
    monkeypatch.setattr("aiokafka.client.create_conn", connect)

    with pytest.raises(NodeNotReadyError):
        await client.send(1, object())
    with pytest.raises(KafkaConnectionError, match="handler is closed"):
        await client.bootstrap()


@pytest.mark.parametrize(
    ("found", "raised"),
    [
        (3, None),
        (DeadlineError("no broker answers"), KafkaConnectionError),
        (
            BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "west"),
            GroupAuthorizationFailedError,
        ),
    ],
)
async def test_a_member_finds_its_coordinator_as_all_else_is_found(
    found: int | MirrorfleetError, raised: type[KafkaError] | None
) -> None:
    """aiokafka asks one broker by chance, which may be silent."""

    async def find() -> int:
        if isinstance(found, MirrorfleetError):
            raise found
        return found

    client = kept_up(Reach(find, 1.0))

    if raised is None:
        assert await client.coordinator_lookup(0, "mirrorfleet.f.mirror") == found
    else:
        with pytest.raises(raised):
            await client.coordinator_lookup(0, "mirrorfleet.f.mirror")


async def test_a_member_does_not_wait_for_a_broker_that_takes_its_connection_and_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def connect(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async def find() -> int:
        return 1

    client = kept_up(Reach(find, 0.05))
    client.cluster.broker_metadata = lambda _: BrokerMetadata(1, HOST, 1, None)
    monkeypatch.setattr("aiokafka.client.create_conn", connect)

    async with asyncio.timeout(5):
        assert not await client.ready(1, group=ConnectionGroup.COORDINATION)
