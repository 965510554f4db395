"""Logins whose secret cannot be had for a moment, or whose second half never comes."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import uuid
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v10.request import MetadataRequest
from kio.schema.metadata.v10.response import MetadataResponse
from kio.static.primitive import Records, i64Timedelta

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism, Protocol, Security
from mirrorfleet.core.errors import ConnectionLostError, DeadlineError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.call import call
from mirrorfleet.kafka.control import ControlTail
from mirrorfleet.kafka.opening import TcpConnector
from tests.fakes import broker as fake
from tests.fakes.broker import Asked, FakeBroker
from tests.faultkit.hold import hold
from tests.faultkit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

LIST_OFFSETS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 2, 17, 36
ASKS_BROKERS = MetadataRequest(
    topics=(),
    allow_auto_topic_creation=False,
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)


def made(schema: Callable[..., Any], **fields: object) -> Any:
    """An entity of a schema, of the fields that its version has."""
    known = {field.name for field in dataclasses.fields(schema)}  # type: ignore[arg-type] # a class
    return schema(**{name: value for name, value in fields.items() if name in known})


def batch_from(offset: int, values: list[bytes]) -> Records | None:
    """One batch of records whose first has this offset; None of none."""
    if not values:
        return None
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for number, value in enumerate(values):
        assert builder.append(number, 1_700_000_000_000, b"k", value, []) is not None
    return Records(offset.to_bytes(8, "big") + bytes(builder.build())[8:])  # outside its CRC


class LoginBroker(FakeBroker):
    """Takes any login, and keeps one topic of one partition, `records` from offset 0 on."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[bytes] = []
        self.lifetime_ms = 0
        self.apis |= {LIST_OFFSETS: (1, 10), SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
        self._defaults |= {
            fake.METADATA: self._one_topic,
            fake.FETCH: self._fetch,
            LIST_OFFSETS: self._offsets,
            SASL_HANDSHAKE: self._handshake,
            SASL_AUTHENTICATE: self._authenticate,
        }

    @property
    def connected(self) -> int:
        """How many connections there are."""
        return len(self._connections)

    def hang_up(self) -> None:
        """End all connections, as a broker does with logins that have expired."""
        for writer in list(self._connections):
            writer.transport.abort()

    def _handshake(self, asked: Asked) -> object:
        return fake.answers(asked).SaslHandshakeResponse(
            error_code=ErrorCode.none, mechanisms=("PLAIN", "OAUTHBEARER")
        )

    def _authenticate(self, asked: Asked) -> object:
        return made(
            fake.answers(asked).SaslAuthenticateResponse,
            error_code=ErrorCode.none,
            error_message=None,
            auth_bytes=b"",
            session_lifetime=i64Timedelta.parse(dt.timedelta(milliseconds=self.lifetime_ms)),
        )

    def _one_topic(self, asked: Asked) -> object:
        schema = fake.answers(asked)
        partition = made(
            schema.MetadataResponsePartition,
            error_code=ErrorCode.none,
            partition_index=0,
            leader_id=1,
            leader_epoch=0,
            replica_nodes=(1,),
            isr_nodes=(1,),
            offline_replicas=(),
        )
        topic = made(
            schema.MetadataResponseTopic,
            error_code=ErrorCode.none,
            name="t",
            topic_id=uuid.UUID(int=7),
            is_internal=False,
            partitions=(partition,),
        )
        brokers = tuple(
            made(schema.MetadataResponseBroker, node_id=node, host=host, port=port)
            for node, (host, port) in self.brokers.items()
        )
        return made(
            schema.MetadataResponse,
            throttle_time=fake.no_time(),
            brokers=brokers,
            cluster_id=self.cluster_id,
            controller_id=1,
            topics=(topic,),
        )

    def _offsets(self, asked: Asked) -> object:
        schema = fake.answers(asked)
        earliest = asked.request.topics[0].partitions[0].timestamp == -2
        partition = made(
            schema.ListOffsetsPartitionResponse,
            partition_index=0,
            error_code=ErrorCode.none,
            timestamp=-1,
            offset=0 if earliest else len(self.records),
        )
        topic = made(schema.ListOffsetsTopicResponse, name="t", partitions=(partition,))
        return made(schema.ListOffsetsResponse, throttle_time=fake.no_time(), topics=(topic,))

    async def _fetch(self, asked: Asked) -> object:
        schema = fake.answers(asked)
        at = asked.request.topics[0].partitions[0].fetch_offset
        if at >= len(self.records):
            await hold(0.02, reason="a broker does not answer an empty fetch at once")
        partition = made(
            schema.PartitionData,
            partition_index=0,
            error_code=ErrorCode.none,
            high_watermark=len(self.records),
            last_stable_offset=len(self.records),
            log_start_offset=0,
            aborted_transactions=None,
            records=batch_from(at, self.records[at:]),
        )
        topic = made(schema.FetchableTopicResponse, topic="t", partitions=(partition,))
        return made(
            schema.FetchResponse,
            throttle_time=fake.no_time(),
            error_code=ErrorCode.none,
            session_id=0,
            responses=(topic,),
        )


@pytest.fixture
async def broker() -> AsyncIterator[LoginBroker]:
    async with LoginBroker() as made_up:
        yield made_up


def settings(broker: FakeBroker, security: Security, **more: float) -> ClusterSettings:
    return ClusterSettings(
        alias=ClusterAlias("fake"),
        bootstrap=(broker.bootstrap,),
        security=security,
        **more,  # type: ignore[arg-type] # seconds
    )


def bearer(token: Path) -> Security:
    return Security(
        protocol=Protocol.SASL_PLAINTEXT, mechanism=Mechanism.OAUTHBEARER, token_file=str(token)
    )


# -- following a control topic


async def test_a_token_that_is_away_while_a_follower_connects_again_holds_it_up_and_no_longer(
    broker: LoginBroker, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    async with asyncio.timeout(10), ControlTail(settings(broker, bearer(token)), "t") as tail:
        broker.records.append(b"before")
        assert (await anext(tail)).value == b"before"
        following = asyncio.ensure_future(anext(tail))
        handshakes = len(broker.asked(SASL_HANDSHAKE))
        token.unlink()
        broker.hang_up()
        await until(
            lambda: len(broker.asked(SASL_HANDSHAKE)) >= handshakes + 3,
            deadline_s=5,
            what="attempts without a token",
        )
        token.write_text("t")
        broker.records.append(b"after")
        assert (await following).value == b"after"


async def test_a_token_that_is_away_for_long_is_told(broker: LoginBroker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    impatient = settings(broker, bearer(token), request_timeout_s=1.0)
    async with asyncio.timeout(10), ControlTail(impatient, "t") as tail:
        broker.records.append(b"before")
        await anext(tail)
        token.write_text("")
        broker.hang_up()
        with pytest.raises(ConnectionLostError, match=r"fake: t: token file .*token is empty"):
            await anext(tail)
    await until(lambda: not broker.connected, deadline_s=5, what="the end of its connections")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("aiokafka.consumer.fetcher.Fetcher._proc_fetch_request", "fetches"),
        ("aiokafka.client.AIOKafkaClient._metadata_update", "finds leaders"),
    ],
)
async def test_a_task_of_aiokafka_that_has_ended_is_told(
    broker: LoginBroker, monkeypatch: pytest.MonkeyPatch, what: str, why: str
) -> None:
    """Its consumer gives nothing for ever then, as it does of a quiet topic."""

    async def broken(*_: object) -> bool:
        raise AssertionError("a surprise")

    async with asyncio.timeout(10), ControlTail(settings(broker, Security()), "t") as tail:
        broker.records.append(b"before")
        await anext(tail)
        monkeypatch.setattr(what, broken)
        broker.hang_up()
        lost = f"fake: t: .*aiokafka no longer {why}: AssertionError.'a surprise'."
        with pytest.raises(ConnectionLostError, match=lost):
            await anext(tail)
    await until(lambda: not broker.connected, deadline_s=5, what="the end of its connections")


# -- authenticating again


async def test_a_login_that_is_given_up_half_way_ends_its_connection(broker: LoginBroker) -> None:
    """The broker would take the next caller's handshake for the step that it still waits for."""
    broker.lifetime_ms = 1
    security = Security(
        protocol=Protocol.SASL_PLAINTEXT, mechanism=Mechanism.PLAIN, username="u", password="p"
    )
    connection = await TcpConnector(settings(broker, security)).open(*broker.address)
    await until(lambda: connection.must_wait, deadline_s=5, what="the end of the login")
    broker.then(SASL_AUTHENTICATE, fake.stay_silent)
    with pytest.raises(DeadlineError, match=r"took no request for 0.2 s"):
        await call(connection, ASKS_BROKERS, MetadataResponse, 0.2)
    with pytest.raises(ConnectionLostError, match="re-authentication was given up"):
        await call(connection, ASKS_BROKERS, MetadataResponse, 0.2)
    assert len(broker.asked(SASL_HANDSHAKE)) == 2
    assert not broker.asked(fake.METADATA)
