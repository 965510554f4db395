"""One cluster: where its brokers are, who leads what, and connections to them.

A `Cluster` is opened once per process and cluster. It remembers leaders, opens connections per
broker and purpose, and finds the cluster again from the bootstrap addresses when every broker
that it knew is gone (KIP-899). An address that came to belong to another cluster is passed over, or
refused: `any_broker`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from kio.schema.metadata.v10.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v10.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.protocol import Entity

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, ConnectionLostError, DeadlineError, RefusedError
from mirrorfleet.core.ids import ClusterId, TopicPartition
from mirrorfleet.core.ports import Dice
from mirrorfleet.kafka.any_broker import answer_within, first_answer, share_s
from mirrorfleet.kafka.backoff import Attempts, SystemDice
from mirrorfleet.kafka.call import call
from mirrorfleet.kafka.codec import Request
from mirrorfleet.kafka.connection import Connection
from mirrorfleet.kafka.dedicated import Dedicated
from mirrorfleet.kafka.leaders import LeaderCache
from mirrorfleet.kafka.metadata import Broker, Metadata, TopicMeta, read_metadata
from mirrorfleet.kafka.opening import Connector, TcpConnector
from mirrorfleet.kafka.pool import Pool
from mirrorfleet.kafka.together import those_of
from mirrorfleet.kafka.versions import ApiVersions, TransactionVersion, transaction_version

R = TypeVar("R", bound=Entity)

TRIED_S: Final = 1.0
"""Who gives a connection up sooner does not want it: that says nothing of the broker."""


class PartitionLeader(NamedTuple):
    """The broker that leads a partition, and the epoch of its leadership."""

    node_id: int
    leader_epoch: int


class Cluster:
    """An async context manager; `open` and `close` by hand do the same."""

    def __init__(
        self,
        settings: ClusterSettings,
        *,
        connector: Connector | None = None,
        dice: Dice | None = None,
    ) -> None:
        """Nothing is connected before `open`. `connector` is the transport port."""
        self.settings = settings
        self.dice: Dice = dice or SystemDice()
        self._connector: Connector = connector or TcpConnector(settings, dice=self.dice)
        self._cluster_id = ClusterId("")
        self._controller = -1
        self._brokers: Mapping[int, Broker] = {}
        self._features: Mapping[str, int] = {}
        self._doubted: set[int] = set()
        self._strangers: set[str] = set()
        """Addresses of another cluster, by its own word: nothing is asked there but who it is."""
        self._leaders = LeaderCache()
        self._pool = Pool(self._open)
        self._dedicated = Dedicated()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- what is known ---------------------------------------------------------------------

    @property
    def cluster_id(self) -> ClusterId:
        """Kafka's own id of the cluster; empty before `open`."""
        return self._cluster_id

    @property
    def features(self) -> Mapping[str, int]:
        """Finalized features and their levels, as the last negotiated broker said."""
        return self._features

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """The brokers of the last metadata, by node id."""
        return self._brokers

    @property
    def controller(self) -> int:
        """A broker to send controller requests to (any broker forwards them in KRaft)."""
        return self._controller

    @property
    def name(self) -> str:
        """The alias, for messages."""
        return str(self.settings.alias)

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Find the cluster.

        Raises: ConnectionLostError, DeadlineError, AuthenticationError, UnsupportedError of the
        last address tried.
        """
        await self.metadata(())

    async def open_everywhere(self) -> None:
        """Find the cluster, and connect to each of its brokers. Raises: as `open`."""
        await self.open()
        await self.broker_versions()

    async def close(self) -> None:
        """Close all connections, dedicated ones too."""
        connections = [*await self._pool.close(), *self._dedicated.take_all()]
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.wait_closed()

    async def forget(self) -> None:
        """Close, and know of no cluster: the next `open` takes whichever answers."""
        await self.close()
        self._cluster_id, self._controller = ClusterId(""), -1
        self._brokers, self._features = {}, {}
        self.settings.last_seen.addresses = ()
        self._leaders = LeaderCache()
        self._strangers.clear()

    # -- metadata --------------------------------------------------------------------------

    async def metadata(
        self, topics: Sequence[str] | None, *, deadline_s: float | None = None
    ) -> Metadata:
        """Ask any broker about `topics` (None: all; empty: brokers only); leaders are remembered.

        Raises: as `ask`; RefusedError when the answer is from another cluster.
        """
        wanted = (
            None
            if topics is None
            else tuple(MetadataRequestTopic(topic_id=None, name=TopicName(t)) for t in topics)
        )
        request = MetadataRequest(
            topics=wanted,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        found = read_metadata(
            await self.ask(
                request, MetadataResponse, deadline_s=deadline_s, accept=self._accept_ours
            )
        )
        self._cluster_id, self._controller = found.cluster_id, found.controller
        self._brokers = found.brokers
        self._dedicated.heed(found.brokers)
        self.settings.last_seen.addresses = tuple(each.address for each in found.brokers.values())
        now = asyncio.get_running_loop().time()
        self._leaders.learn(found.topics.values(), now)
        if topics is None:
            self._leaders.keep_only(found.topics, now)
        return found

    def _accept_ours(self, answer: MetadataResponse) -> None:
        if self._cluster_id and answer.cluster_id != self._cluster_id:
            raise RefusedError(
                f"{self.name}: the address that was cluster {self._cluster_id} is now"
                f" {answer.cluster_id}.",
                hint="Check `bootstrap`; a new cluster needs a new alias.",
            )

    async def topic(self, name: str, *, refresh: bool = False) -> TopicMeta:
        """A topic, from memory unless `refresh`. Raises: BrokerError (unknown, not allowed)."""
        known = None if refresh else self._leaders.topic(name)
        if known is None:
            known = (await self._read_topics((name,)))[name]
        if known.error is not ErrorCode.NONE:
            raise self._refusal(known)
        return known

    async def leader(self, tp: TopicPartition) -> PartitionLeader:
        """Who leads `tp`, from memory.

        Raises: BrokerError LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION or what the topic has.
        """
        leader = (await self.leaders((tp,)))[tp]
        if isinstance(leader, BrokerError):
            raise leader
        return leader

    async def leaders(
        self, partitions: Collection[TopicPartition], *, deadline_s: float | None = None
    ) -> dict[TopicPartition, PartitionLeader | BrokerError]:
        """Who leads each, or the error that `leader` would raise; from memory.

        One request asks for all topics that memory lacks, or that lack a partition there. Raises:
        as `metadata`.
        """
        topics = {tp.topic: self._leaders.topic(tp.topic) for tp in partitions}
        lacking = {tp.topic for tp in partitions if not _has(topics[tp.topic], tp.partition)}
        if lacking:
            topics |= await self._read_topics(sorted(lacking), deadline_s)
        return {tp: self._leader(tp, topics[tp.topic]) for tp in partitions}

    def _leader(self, tp: TopicPartition, topic: TopicMeta | None) -> PartitionLeader | BrokerError:
        if topic is not None and topic.error is not ErrorCode.NONE:
            return self._refusal(topic)
        partition = None if topic is None else topic.partitions.get(tp.partition)
        if partition is None:
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name}: {tp}")
        if partition.leader < 0:
            return BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, f"{self.name}: {tp}")
        return PartitionLeader(partition.leader, partition.leader_epoch)

    def _refusal(self, topic: TopicMeta) -> BrokerError:
        return BrokerError(topic.error, f"{self.name}: topic {topic.name}")

    async def _read_topics(
        self, names: Sequence[str], deadline_s: float | None = None
    ) -> dict[str, TopicMeta]:
        asked = (await self.metadata(names, deadline_s=deadline_s)).topics
        # who answered may lag behind: the newest leaders that we saw count (KIP-320)
        return {name: self._leaders.topic(name) or asked[name] for name in names}

    def forget_leaders(self, topic: str) -> None:
        """Have the next `leader` or `topic` ask again."""
        self._leaders.forget(topic)

    # -- connections -----------------------------------------------------------------------

    async def connect(self, node_id: int, *, purpose: str) -> Connection:
        """A new connection for one purpose; the caller closes it.

        Raises: ConnectionLostError, DeadlineError, AuthenticationError, UnsupportedError.
        """
        broker = await self._broker(node_id, purpose)
        with self._doubting(node_id):
            return self._dedicated.add(await self._open(broker.host, broker.port), broker)

    async def shared(self, node_id: int) -> Connection:
        """The control connection to a broker; raises as `connect`."""
        broker = await self._broker(node_id, "control")
        with self._doubting(node_id):
            return await self._pool.get(broker.address)

    @contextmanager
    def _doubting(self, node_id: int) -> Iterator[None]:
        """Where a broker cannot be reached it may be no more: its address is asked for the next
        time, unless that was given up at once. Who follows a group, or copies, asks for none.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        except (ConnectionLostError, DeadlineError, asyncio.CancelledError) as error:
            tried = not isinstance(error, asyncio.CancelledError) or loop.time() - began > TRIED_S
            if tried:
                self._doubted.add(node_id)
            raise

    async def broker_versions(self) -> list[ApiVersions]:
        """What each broker of the last metadata speaks. Raises: as `connect`."""
        found = [(await self.shared(node_id)).versions for node_id in self._brokers]
        return [versions for versions in found if versions is not None]

    async def transaction_version(self) -> TransactionVersion:
        """How transactions are to be done here, by what every broker is. Raises: as `connect`."""
        return transaction_version(self._features, await self.broker_versions())

    async def version_of_those_there(self) -> TransactionVersion:
        """The same by the brokers that answer. Raises: as `connect`, when none does."""
        found = await those_of(self.shared(node_id) for node_id in self._brokers)
        versions = [each.versions for each in found if each.versions is not None]
        return transaction_version(self._features, versions)

    async def _broker(self, node_id: int, purpose: str) -> Broker:
        if node_id not in self._brokers:
            await self.metadata(())
        elif node_id in self._doubted:
            self._doubted.discard(node_id)  # one asks for all
            with suppress(ConnectionLostError, DeadlineError):
                await self.metadata((), deadline_s=self.settings.connect_timeout_s / 2)
        broker = self._brokers.get(node_id)
        if broker is None:
            raise ConnectionLostError(
                f"{self.name}: broker {node_id} is not in the cluster's metadata ({purpose})."
            )
        return broker

    async def _open(self, host: str, port: int) -> Connection:
        connection = await self._connector.open(host, port)
        if connection.versions is not None:
            self._features = connection.versions.finalized or self._features
        return connection

    # -- requests --------------------------------------------------------------------------

    async def ask(
        self,
        request: Request,
        expect: type[R],
        *,
        node: int | None = None,
        deadline_s: float | None = None,
        accept: Callable[[R], None] | None = None,
    ) -> R:
        """Send a request to `node`, or to any broker, and give the answer as it is.

        With a `node` it is sent once. Connecting to it may take `deadline_s`, and the answer as
        long again: a request that ran out of time ends the connection, which others have just
        waited for. Without, brokers are tried in turn as `_ask_any` says, until `accept` takes an
        answer for one of our cluster.

        Raises: ConnectionLostError, DeadlineError, AuthenticationError, UnsupportedError;
        RefusedError of `accept`.
        """
        deadline_s = deadline_s or self.settings.request_timeout_s
        if node is None:
            return await self._ask_any(request, expect, deadline_s, accept)
        connection = await self._within(deadline_s, self.shared(node), f"broker {node}")
        return await call(connection, request, expect, deadline_s)

    async def _ask_any(
        self,
        request: Request,
        expect: type[R],
        deadline_s: float,
        accept: Callable[[R], None] | None,
    ) -> R:
        """Try the brokers that we know and then the bootstrap addresses: see `first_answer`. One
        that is frozen or gone costs its share only.
        """
        attempts = Attempts(f"{self.name}: any broker", deadline_s, self.dice)

        async def ask(address: str, left: int) -> R:
            limit_s, features = share_s(attempts, left), self._features
            connection = await self._within(limit_s, self._pool.get(address), address)
            answer = await answer_within(connection, request, expect, share_s(attempts, left))
            if accept is not None:
                try:
                    accept(answer)
                except RefusedError:
                    self._strangers.add(address)
                    self._features = features
                    connection.close()
                    raise
                self._strangers.discard(address)
            return answer

        taken = [each for each in self._addresses() if accept or each not in self._strangers]
        why = "another cluster has each address" if self._strangers else "no address is configured"
        return await first_answer(
            taken, ask, named=self.settings.bootstrap, otherwise=f"{self.name}: {why}."
        )

    async def _within(
        self, limit_s: float, connecting: Awaitable[Connection], where: str
    ) -> Connection:
        try:
            async with asyncio.timeout(limit_s):
                return await connecting
        except TimeoutError:
            text = f"{self.name}: no connection to {where} within {limit_s:g} s."
            hint = "Check the address, the network and the firewall."
            raise DeadlineError(text, hint=hint) from None

    def _addresses(self) -> Iterator[str]:
        """Addresses to try: open connections first, then known brokers, then bootstrap, and then
        where other clients with these settings saw them last.
        """
        known = [broker.address for broker in self._brokers.values()]
        spread = {address: self.dice.uniform(0.0, 1.0) for address in known}
        known.sort(key=lambda address: (not self._pool.has(address), spread[address]))
        yield from known
        yield from (address for address in self.settings.addresses if address not in spread)


def _has(topic: TopicMeta | None, partition: int) -> bool:
    return topic is not None and partition in topic.partitions
