"""Connections that several callers wait for, and a broker that does not answer at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from unittest.mock import AsyncMock

import pytest
from kio.schema.metadata.v10.request import MetadataRequest
from kio.schema.metadata.v10.response import MetadataResponse

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.errors import AuthenticationError, ConnectionLostError, DeadlineError
from mirrorfleet.core.ids import ClusterAlias, ClusterId
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.metadata import Broker, Metadata
from tests.faultkit.waiting import until
from tests.unit.kafka.transport import connected

REQUEST = MetadataRequest(
    topics=(),
    allow_auto_topic_creation=False,
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)


class Connector:
    """Hosts hang until they are let go; those that are down refuse then."""

    def __init__(self, *, down: tuple[str, ...] = ()) -> None:
        self.asked: list[str] = []
        self.let_go = asyncio.Event()
        self._down = down

    async def open(self, host: str, port: int) -> Connection:
        self.asked.append(f"{host}:{port}")
        if host == "denies":
            raise AuthenticationError("denies does not know us.")
        if host != "refuses":
            await self.let_go.wait()
        if host in (*self._down, "refuses"):
            raise ConnectionLostError(f"{host} refuses.")
        connection, _ = connected()
        return connection


def cluster_with(connector: Connector, *bootstrap: str) -> Cluster:
    """A cluster whose broker 1 is known."""
    settings = ClusterSettings(alias=ClusterAlias("west"), bootstrap=bootstrap or ("one:9092",))
    made = Cluster(settings, connector=connector)
    if not bootstrap:
        made._brokers = {1: Broker(1, "one", 9092, None)}
        made.metadata = where_it_was  # type: ignore[method-assign]  # nothing is asked
    return made


async def where_it_was(
    topics: Sequence[str] | None, *, deadline_s: float | None = None
) -> Metadata:
    """Nobody has moved."""
    del topics, deadline_s
    return Metadata(ClusterId(""), 1, {}, {})


async def ask(cluster: Cluster, deadline_s: float) -> None:
    await cluster.ask(REQUEST, MetadataResponse, node=1, deadline_s=deadline_s)


async def waiting(connector: Connector) -> None:
    """Until something is being opened, and all who came before wait for it."""
    await until(lambda: bool(connector.asked), deadline_s=5.0, what="a connection to be opened")
    await asyncio.sleep(0)


async def test_a_broker_that_is_gone_costs_nobody_more_than_the_own_deadline() -> None:
    connector = Connector()
    cluster = cluster_with(connector)
    loop = asyncio.get_running_loop()
    began = loop.time()

    found = await asyncio.gather(*(ask(cluster, 0.05) for _ in range(16)), return_exceptions=True)

    assert loop.time() - began < 0.5
    assert {type(each) for each in found} == {DeadlineError}
    assert connector.asked == ["one:9092"]
    await cluster.close()


async def test_all_who_wait_for_a_connection_share_what_comes_of_it() -> None:
    connector = Connector(down=("one",))
    cluster = cluster_with(connector)
    asking = asyncio.gather(*(ask(cluster, 9.0) for _ in range(3)), return_exceptions=True)
    await waiting(connector)

    connector.let_go.set()

    assert {str(each) for each in await asking} == {"one refuses."}
    assert connector.asked == ["one:9092"]
    with pytest.raises(ConnectionLostError):
        await ask(cluster, 9.0)
    assert connector.asked == ["one:9092", "one:9092"]


async def test_who_gives_up_leaves_the_opening_to_the_next_one() -> None:
    connector = Connector()
    cluster = cluster_with(connector)
    with pytest.raises(DeadlineError):
        await ask(cluster, 0.01)

    connector.let_go.set()
    connection = await cluster.shared(1)

    assert not connection.closed
    assert await cluster.shared(1) is connection
    assert connector.asked == ["one:9092"]


async def test_an_address_that_is_gone_costs_its_share_of_a_question_to_any_broker() -> None:
    connector = Connector()
    cluster = cluster_with(connector, "gone:1", "refuses:2")

    with pytest.raises(ConnectionLostError, match="refuses"):
        await cluster.ask(REQUEST, MetadataResponse, deadline_s=0.1)

    assert connector.asked == ["gone:1", "refuses:2"]
    await cluster.close()


@pytest.mark.parametrize(
    ("bootstrap", "tried"),
    [
        pytest.param(("denies:1", "refuses:2"), 2, id="another one might have taken it"),
        pytest.param(("refuses:1", "denies:2"), 2, id="the last one"),
        pytest.param(("denies:1", "denies:2", "denies:3"), 2, id="two are believed"),
    ],
)
async def test_a_login_that_a_broker_refuses_is_tried_with_one_other_broker(
    bootstrap: tuple[str, ...], tried: int
) -> None:
    connector = Connector()
    cluster = cluster_with(connector, *bootstrap)

    with pytest.raises(AuthenticationError, match="denies does not know us"):
        await cluster.ask(REQUEST, MetadataResponse, deadline_s=1.0)

    assert connector.asked == list(bootstrap[:tried])
    await cluster.close()


@pytest.mark.parametrize("shared", [True, False])
async def test_a_broker_that_came_back_at_another_address_is_found_there(
    monkeypatch: pytest.MonkeyPatch, *, shared: bool
) -> None:
    """Its coordinator is named by its id alone."""
    connector = Connector()
    connector.let_go.set()
    cluster = cluster_with(connector)
    cluster._brokers = {1: Broker(1, "refuses", 9092, None)}
    asked = 0

    async def metadata(_: object, *, deadline_s: float | None = None) -> None:
        nonlocal asked
        assert deadline_s
        asked += 1
        cluster._brokers = {1: Broker(1, "elsewhere", 9092, None)}

    async def connect() -> Connection:
        return await (cluster.shared(1) if shared else cluster.connect(1, purpose="test"))

    monkeypatch.setattr(cluster, "metadata", metadata)
    with pytest.raises(ConnectionLostError):
        await connect()
    for _ in range(2):
        await connect()

    assert connector.asked[:2] == ["refuses:9092", "elsewhere:9092"]
    assert asked == 1


@pytest.mark.parametrize(("tried_s", "asks"), [(60.0, 0), (-1.0, 1)])
async def test_who_gives_a_connection_up_at_once_says_nothing_of_its_broker(
    monkeypatch: pytest.MonkeyPatch, tried_s: float, asks: int
) -> None:
    connector = Connector()
    cluster = cluster_with(connector)
    monkeypatch.setattr("mirrorfleet.kafka.cluster.TRIED_S", tried_s)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await cluster.connect(1, purpose="test")

    metadata = AsyncMock()
    monkeypatch.setattr(cluster, "metadata", metadata)
    connector.let_go.set()
    await cluster.connect(1, purpose="test")

    assert metadata.await_count == asks


async def test_what_is_being_opened_ends_with_the_cluster() -> None:
    connector = Connector()
    cluster = cluster_with(connector)
    asking = asyncio.gather(ask(cluster, 9.0), return_exceptions=True)
    await waiting(connector)

    await cluster.close()

    (error,) = await asking
    assert isinstance(error, ConnectionLostError)
    assert asyncio.all_tasks() == {asyncio.current_task()}
