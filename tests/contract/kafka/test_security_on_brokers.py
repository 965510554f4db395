"""Every way to prove who we are, and what each failure says, on real brokers."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterator
from typing import cast

import aiokafka
import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism, Protocol
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import AuthenticationError, BrokerError, ConnectionLostError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.acls import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    create_acls,
    delete_acls,
    describe_acls,
)
from mirrorfleet.kafka.admin import describe_cluster
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.connection import Renewal
from mirrorfleet.kafka.control import ControlTail, ControlWriter
from mirrorfleet.kafka.producer import ProduceLane
from mirrorfleet.kafka.transactions import Transactions, TransactionVersion
from services.local.region import Region, RegionSpec
from services.local.security import Authorizer, Kind, RegionSecurity
from tests.conftest import running
from tests.contract.kafka.making import entry, new_topic
from tests.faultkit.control_topics import read_to_end
from tests.faultkit.waiting import until

MECHANISMS = list(Mechanism)
SESSION_S = 6.0


@dataclasses.dataclass(frozen=True)
class Guarded:
    """Three regions: SASL over TLS with ACLs; mutual TLS under another name; an expired one."""

    sasl: Region
    mtls: Region
    expired: Region


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    sasl = RegionSecurity(kind=Kind.SASL_SSL, authorizer=Authorizer.STANDARD)
    mtls = RegionSecurity(kind=Kind.MTLS, hosts=("elsewhere.example",))
    expired = RegionSecurity(kind=Kind.MTLS, lifetime_days=-1)
    session = {"connections.max.reauth.ms": str(int(SESSION_S * 1000))}
    for regions in running(
        RegionSpec(name="sasl", security=sasl, extra=session),
        RegionSpec(name="mtls", security=mtls),
        RegionSpec(name="expired", security=expired),
    ):
        yield Guarded(*regions)


def changed(settings: ClusterSettings, **security: object) -> ClusterSettings:
    """The same with other security fields."""
    made = dataclasses.replace(settings.security, **security)  # type: ignore[arg-type] # by name
    return dataclasses.replace(settings, security=made)


def named(region: Region) -> ClusterSettings:
    """How to reach a region whose certificate is for another name."""
    return changed(region.settings(), check_hostname=False)


async def refusal(settings: ClusterSettings) -> str:
    """What opening says; it must be refused."""
    with pytest.raises(AuthenticationError) as caught:
        await Cluster(settings).open()
    address = settings.bootstrap[0]
    said = str(caught.value).replace(f"{address} ({settings.alias})", "BROKER")
    return said.replace(address, "BROKER")


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_each_mechanism_opens_writes_and_reads(
    guarded: Guarded, mechanism: Mechanism
) -> None:
    settings = guarded.sasl.settings("admin", mechanism)
    async with Cluster(settings) as cluster:
        topic = (await new_topic(cluster)).name
        await ControlWriter(cluster).write(TopicPartition(topic, 0), [(b"k", b"v")], 0)
    found = await read_to_end(settings, topic)  # aiokafka's way in
    assert [(r.key, r.value) for r in found] == [(b"k", b"v")]


async def test_mutual_tls_opens_writes_and_reads(guarded: Guarded) -> None:
    settings = named(guarded.mtls)
    async with Cluster(settings) as cluster:
        topic = (await new_topic(cluster)).name
        await ControlWriter(cluster).write(TopicPartition(topic, 0), [(b"k", b"v")], 0)
    assert len(await read_to_end(settings, topic)) == 1


# -- sessions


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_connection_authenticates_again_with_requests_in_flight(
    guarded: Guarded, mechanism: Mechanism
) -> None:
    async with Cluster(guarded.sasl.settings("admin", mechanism)) as cluster:
        topic = await new_topic(cluster)
        lane = ProduceLane(await cluster.connect(1, purpose="test"))
        renewal = lane.connection.renewal
        assert renewal is not None
        pending = [lane.send([entry(topic, 0, (b"k", b"v"))]) for _ in range(5)]
        lane.connection.renewal = Renewal(0.0, renewal.run)
        await lane.ready()
        pending += [lane.send([entry(topic, 0, (b"k", b"v"))]) for _ in range(5)]
        assert [(await acks)[0].base_offset for acks in pending] == list(range(10))
        assert lane.connection.renewal is not None
        assert lane.connection.renewal.due > renewal.due - SESSION_S


async def test_a_connection_outlives_its_session(guarded: Guarded) -> None:
    """The broker ends a connection that is used after its session without authenticating again."""
    async with Cluster(guarded.sasl.settings()) as cluster:
        await describe_cluster(cluster)
        connection = await cluster.shared(1)
        renewal = connection.renewal
        assert renewal is not None

        async def renewed() -> bool:
            nonlocal connection, renewal
            await describe_cluster(cluster)
            now = await cluster.shared(1)
            if now is not connection:  # ended by a broker that stood still over a session's end
                connection, renewal = now, now.renewal
            first, latest = renewal, connection.renewal
            return first is not None and latest is not None and latest.due > first.due + 1

        await until(
            renewed, deadline_s=60, what="a second session", ignoring=(ConnectionLostError,)
        )


# -- refusals


@pytest.mark.parametrize("mechanism", [m for m in MECHANISMS if m is not Mechanism.OAUTHBEARER])
async def test_a_wrong_password_names_mechanism_and_principal(
    guarded: Guarded, mechanism: Mechanism
) -> None:
    settings = guarded.sasl.settings("admin", mechanism)
    wrong = changed(settings, password="swordfish", password_file=None)
    said = await refusal(wrong)
    assert said.startswith(f"BROKER: SASL {mechanism} as User:admin failed: Authentication failed")
    assert said.endswith("Check the username and password, and that the broker knows this user.")
    assert "swordfish" not in said


async def test_a_token_that_the_broker_refuses_is_not_shown(guarded: Guarded) -> None:
    settings = guarded.sasl.settings("admin", Mechanism.OAUTHBEARER)
    token = guarded.sasl.directory / "bad.token"
    token.write_text("not.a.token")
    said = await refusal(changed(settings, token_file=str(token)))
    assert said.startswith("BROKER: SASL OAUTHBEARER as User:admin failed: ")
    assert "not.a.token" not in said


async def test_a_certificate_for_another_name_names_ours(guarded: Guarded) -> None:
    said = await refusal(guarded.mtls.settings())
    assert said == (
        "BROKER: the broker's certificate is not for 127.0.0.1."
        " Use a name that the certificate has, or have it issued with this name."
    )


async def test_an_expired_certificate_says_so(guarded: Guarded) -> None:
    said = await refusal(guarded.expired.settings())
    assert said == (
        "BROKER: the broker's certificate has expired."
        " Renew it at the broker, or check this machine's clock."
    )


async def test_a_ca_that_we_do_not_know_names_what_we_trust(guarded: Guarded) -> None:
    other = str(guarded.mtls.tls / "ca.pem")
    said = await refusal(changed(guarded.sasl.settings(), ca_file=other))
    assert "the broker's certificate is signed by a CA we do not know" in said
    assert f"we trust {other}. Set security.ca_file to the CA that signed" in said


@pytest.mark.parametrize("shown", ["none", "of another CA"])
async def test_a_client_certificate_that_the_broker_refuses(guarded: Guarded, shown: str) -> None:
    own = guarded.expired.settings().security if shown == "of another CA" else None
    said = await refusal(
        changed(
            named(guarded.mtls),
            cert_file=own.cert_file if own else None,
            key_file=own.key_file if own else None,
        )
    )
    assert said.startswith("BROKER refused our certificate: ")
    assert said.endswith(
        "Check cert_file and key_file: valid now, and signed by a CA the broker trusts."
    )


@pytest.mark.parametrize(
    ("ours", "error", "text"),
    [
        (Protocol.PLAINTEXT, ConnectionLostError, "speaks TLS and we do not"),
        (Protocol.SASL_PLAINTEXT, ConnectionLostError, "speaks TLS and we do not"),
        (Protocol.SSL, ConnectionLostError, "If its listener wants TLS, a certificate or SASL"),
    ],
)
async def test_a_protocol_that_the_listener_does_not_speak(
    guarded: Guarded, ours: Protocol, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        await Cluster(changed(guarded.sasl.settings(), protocol=ours)).open()


# -- access


def allow(resource: AclResource, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        resource,
        name,
        AclPattern.LITERAL,
        "User:mirrorfleet",
        "*",
        operation,
        AclPermission.ALLOW,
    )


@pytest.fixture
async def admin(guarded: Guarded) -> AsyncIterator[Cluster]:
    async with Cluster(guarded.sasl.settings("admin")) as opened:
        yield opened


async def test_acls_are_created_once_listed_and_deleted(admin: Cluster) -> None:
    topic = (await new_topic(admin)).name
    read = allow(AclResource.TOPIC, topic, AclOperation.READ)
    write = allow(AclResource.TOPIC, topic, AclOperation.WRITE)
    for _ in range(2):
        assert await create_acls(admin, [read, write]) == {read: None, write: None}

    async def listed() -> bool:
        found = await describe_acls(admin, resource=AclResource.TOPIC)
        return sorted(f for f in found if f.name == topic) == [read, write]

    await until(listed, deadline_s=10, what="both ACLs")
    assert await delete_acls(admin, [read]) == {read: None}

    async def one_left() -> bool:
        return [f for f in await describe_acls(admin) if f.name == topic] == [write]

    await until(one_left, deadline_s=10, what="one ACL left")


async def test_a_denied_topic_recovers_once_it_is_granted(guarded: Guarded, admin: Cluster) -> None:
    topic = await new_topic(admin)
    async with Cluster(guarded.sasl.settings("mirrorfleet")) as cluster:
        with pytest.raises(BrokerError, match=f"{topic.name}: TOPIC_AUTHORIZATION_FAILED"):
            await cluster.topic(topic.name)
        lane = ProduceLane(await cluster.connect(1, purpose="test"))
        (ack,) = await lane.send([entry(topic, 0, (b"k", b"v"))])
        assert ack.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await create_acls(admin, [allow(AclResource.TOPIC, topic.name, AclOperation.WRITE)])

        async def granted() -> bool:
            await lane.ready()  # also of a login that is due
            (ack,) = await lane.send([entry(topic, 0, (b"k", b"v"))])
            return ack.error is ErrorCode.NONE

        await until(granted, deadline_s=10, what="the grant")


async def test_a_tail_that_may_not_read_any_more_tells(guarded: Guarded, admin: Cluster) -> None:
    """Also when aiokafka hears it from metadata: it knows no leader then, and fetches nothing."""
    topic = (await new_topic(admin)).name
    read = allow(AclResource.TOPIC, topic, AclOperation.READ)
    await create_acls(admin, [read])

    async def opened() -> ControlTail:
        return await ControlTail(guarded.sasl.settings("mirrorfleet"), topic).__aenter__()

    tail = await until(opened, deadline_s=10, what="the grant", ignoring=(BrokerError,))
    consumer = cast("aiokafka.AIOKafkaConsumer", tail._consumer)
    client = consumer._client

    async def leader_forgotten() -> bool:
        await client.force_metadata_update()
        return topic in client.cluster.unauthorized_topics

    try:
        await tail.read_to_end()
        consumer.pause(*consumer.assignment())
        await delete_acls(admin, [read])
        await until(leader_forgotten, deadline_s=10, what="metadata without the topic")
        consumer.resume(*consumer.assignment())
        with pytest.raises(BrokerError, match=f"{topic}: TOPIC_AUTHORIZATION_FAILED"):
            async with asyncio.timeout(10):
                await anext(tail)
    finally:
        await tail.__aexit__(None, None, None)


async def test_a_denied_transactional_id_is_named(guarded: Guarded, admin: Cluster) -> None:
    async with Cluster(guarded.sasl.settings("mirrorfleet")) as cluster:
        transactions = Transactions(cluster, "denied-slot", TransactionVersion.V2)
        with pytest.raises(
            BrokerError, match=r"denied-slot: .*TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        ):
            await transactions.init_producer_id(timeout_ms=15_000)
        await create_acls(
            admin, [allow(AclResource.TRANSACTIONAL_ID, "denied-slot", AclOperation.WRITE)]
        )

        async def granted() -> bool:
            return (await transactions.init_producer_id(timeout_ms=15_000)).epoch >= 0

        await until(granted, deadline_s=10, what="the grant", ignoring=(BrokerError,))
