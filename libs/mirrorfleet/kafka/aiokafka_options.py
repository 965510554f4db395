"""Settings of ours as options of aiokafka's clients, and its errors as ours.

aiokafka finds no way to brokers that have all moved, nor to a renewed secret, and waits at an
address that is silent as long as for an answer: `keep_up` helps its clients. It connects in tasks
of its own. They try again after a KafkaError, and any other error ends them, which no call of its
consumer tells: so a token that is not to be had is a KafkaError there, and `check_tasks` looks
whether they still run.

And it has brokers make each topic that it asks about and that is missing, where they may
(auto.create.topics.enable, Kafka's default): a control topic that was deleted too, with their own
number of partitions, replicas and retention. No client of this process does, nor Faust's.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol, cast

from aiokafka import client as clients
from aiokafka import errors as theirs
from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.metadata import MetadataRequest

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism
from mirrorfleet.core.error_codes import ErrorCode, error_code
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    MirrorfleetError,
    UnsupportedError,
)
from mirrorfleet.kafka.metadata import Broker
from mirrorfleet.kafka.tls import TlsContexts, make_context
from mirrorfleet.kafka.tokens import TokenProvider, token_provider

_MS: Final = 1000
ADDRESS_S: Final = 5.0
"""For each step of finding out whether an address answers, before the next one is tried: six times
around the world for TCP, TLS and a login."""


clients.MetadataRequest = partial(MetadataRequest, allow_auto_topic_creation=False)


def client_options(
    settings: ClusterSettings, tokens: TokenProvider | None = None
) -> dict[str, object]:
    """Options that every aiokafka client of this cluster takes. `tokens`: where they come from, if
    it is to outlive the client.

    Raises: ConfigError when a secret or certificate file cannot be read; ConnectionLostError when
    that of the password is empty.
    """
    security = settings.security
    options: dict[str, object] = {
        "bootstrap_servers": list(settings.addresses),
        "client_id": settings.client_id,
        "request_timeout_ms": int(settings.request_timeout_s * _MS),
        "security_protocol": security.protocol.value,
    }
    if security.protocol.tls:
        options["ssl_context"] = make_context(security)
    if security.protocol.sasl and security.mechanism is not None:
        options["sasl_mechanism"] = security.mechanism.value
        if security.mechanism is Mechanism.OAUTHBEARER:
            provider = tokens or token_provider(security)
            options["sasl_oauth_token_provider"] = _Tokens(provider)
        else:
            options["sasl_plain_username"] = security.username
            options["sasl_plain_password"] = security.read_password()
    return options


def tokens_of(settings: ClusterSettings) -> TokenProvider | None:
    """For several clients, one after the other; None where none logs in with a token.

    Raises: ConfigError.
    """
    security = settings.security
    has_tokens = security.protocol.sasl and security.mechanism is Mechanism.OAUTHBEARER
    return token_provider(security) if has_tokens else None


class Reach(NamedTuple):
    """How a client gets to the coordinator of its group."""

    find: Callable[[], Awaitable[int]]
    """The node that coordinates it now; raises MirrorfleetError."""
    limit_s: float
    """For each connection."""


def keep_up(client: object, settings: ClusterSettings, reach: Reach | None = None) -> None:
    """Have an aiokafka client read password and certificates for each connection, and find brokers
    that have moved.

    Its own keeps the first secrets, and the addresses of its last answer: a connection that fails
    with them is tried again for ever. Without `reach` it looks for a coordinator at any broker that
    it knows: one that is silent costs it a whole request's time, and again where it connects.
    """
    security = settings.security
    first = cast("_Client", client)._ssl_context
    password = cast("_Client", client)._sasl_plain_password
    client.__class__ = _KeepingUp
    ours = cast("_KeepingUp", client)
    ours.settings, ours.reach = settings, reach
    if security.protocol.sasl and security.mechanism not in (None, Mechanism.OAUTHBEARER):
        ours.reads, ours.last = security.read_password, password
    if security.protocol.tls:
        ours.contexts = TlsContexts(security, first=first, now=time.monotonic())


class _KeepingUp(AIOKafkaClient):  # type: ignore[misc] # aiokafka has no types
    """Where aiokafka looks for password, certificates and addresses when it connects."""

    settings: ClusterSettings
    reads: Callable[[], str] | None = None
    last: str | None = None
    contexts: TlsContexts | None = None
    reach: Reach | None = None
    trying: asyncio.Task[object] | None = None

    @property
    def _request_timeout_ms(self) -> int:
        """Less while an address is tried: of three brokers one may be frozen."""
        asked = int(self.__dict__["_request_timeout_ms"])
        is_trying = self.trying is not None and asyncio.current_task() is self.trying
        return min(asked, int(ADDRESS_S * _MS)) if is_trying else asked

    @property
    def _sasl_plain_password(self) -> str | None:
        if self.reads is not None:
            with suppress(MirrorfleetError):  # being replaced: the one before, once more
                self.last = self.reads()
        return self.last

    async def _metadata_update(self, cluster: object, topics: object) -> bool:
        """When no broker that it knows answers, ask at all other addresses (KIP-899)."""
        if await super()._metadata_update(cluster, topics):
            return True
        tried = {Broker(b.nodeId, b.host, b.port).address for b in self.cluster.brokers()}
        self._bootstrap_servers = [each for each in self.settings.addresses if each not in tried]
        try:
            await self.bootstrap()
        except theirs.KafkaError:
            return False
        return bool(await super()._metadata_update(cluster, topics))

    async def _maybe_wait_metadata(self) -> None:
        """As aiokafka, but who shares out slots needs none, and must not sit out its session
        without a heartbeat while a frozen broker is asked for it.
        """
        if self.reach is None:
            await super()._maybe_wait_metadata()

    async def bootstrap(self) -> None:
        """As aiokafka. Raises: KafkaConnectionError."""
        self.trying = asyncio.current_task()
        try:
            await super().bootstrap()
        except RuntimeError as error:  # as below
            raise theirs.KafkaConnectionError(str(error)) from error
        finally:
            self.trying = None

    async def coordinator_lookup(self, kind: object, key: str) -> int:
        """As aiokafka. Raises: KafkaError."""
        if self.reach is None:
            return int(await super().coordinator_lookup(kind, key))
        try:
            return await self.reach.find()
        except BrokerError as error:
            raise theirs.for_code(error.code)(str(error)) from error
        except MirrorfleetError as error:
            raise theirs.KafkaConnectionError(str(error)) from error

    async def _get_conn(self, node_id: object, **how: object) -> _Connection | None:
        """A connection that takes a request now; None when there is none.

        uvloop has a RuntimeError for what is written to a connection that was reset a moment ago.
        aiokafka does not expect it: it would end its task, and the error our process.
        """
        limit_s = None if self.reach is None else self.reach.limit_s
        try:
            async with asyncio.timeout(limit_s):
                found = cast("_Connection | None", await super()._get_conn(node_id, **how))
        except (RuntimeError, TimeoutError):  # reset before its first request, or silent
            self.force_metadata_update()
            return None
        writer = None if found is None else found._writer
        return None if writer is None or writer.transport.is_closing() else found

    @property
    def _ssl_context(self) -> ssl.SSLContext | None:
        return None if self.contexts is None else self.contexts.current(time.monotonic())


class _Tokens(AbstractTokenProvider):  # type: ignore[misc] # aiokafka has no types
    """Our token provider in aiokafka's form; it keeps why there is no token, and for how long."""

    def __init__(self, provider: TokenProvider) -> None:
        self._provider = provider
        self.trouble: MirrorfleetError | None = None
        self.lasted_s = 0.0
        self._since = 0.0

    async def token(self) -> str:
        """A new token for each connection: aiokafka does not tell of one that was refused.

        Raises: aiokafka's KafkaConnectionError.
        """
        now = asyncio.get_running_loop().time()
        try:
            found = await self._provider.newest()
        except MirrorfleetError as error:
            self._since = now if self.trouble is None else self._since
            self.trouble, self.lasted_s = error, now - self._since
            raise theirs.KafkaConnectionError(str(error)) from error
        self.trouble, self.lasted_s = None, 0.0
        return found


def token_trouble(options: Mapping[str, object], *, at_least_s: float = 0.0) -> str:
    """Why clients with these options have had no token for so long; empty when they have one."""
    tokens = options.get("sasl_oauth_token_provider")
    if not isinstance(tokens, _Tokens) or tokens.trouble is None or tokens.lasted_s < at_least_s:
        return ""
    return str(tokens.trouble)


class _Connection(Protocol):
    """aiokafka's, once it is open."""

    _writer: asyncio.StreamWriter | None


class _Metadata(Protocol):
    """What a client knows of its cluster."""

    unauthorized_topics: set[str]

    def partitions_for_topic(self, topic: str) -> set[int] | None: ...


class _Fetcher(Protocol):
    _fetch_task: asyncio.Task[None]
    _pending_tasks: set[asyncio.Task[bool]]


class _Client(Protocol):
    cluster: _Metadata
    _ssl_context: ssl.SSLContext | None
    _sasl_plain_password: str | None
    _sync_task: asyncio.Task[None] | None


class _Consumer(Protocol):
    """Where an AIOKafkaConsumer has its tasks."""

    _fetcher: _Fetcher | None
    _client: _Client


def check_tasks(consumer: object) -> None:
    """Raises: aiokafka's KafkaError when a task that its consumer depends on has ended."""
    inner = cast("_Consumer", consumer)
    fetching = None if inner._fetcher is None else inner._fetcher._fetch_task
    for what, task in (("fetches", fetching), ("finds leaders", inner._client._sync_task)):
        if task is not None and task.done():
            error = None if task.cancelled() else task.exception()
            why = error and (error.__cause__ or error)
            raise theirs.KafkaConnectionError(f"aiokafka no longer {what}: {why!r}")


def is_told_of(consumer: object, topic: str) -> bool:
    """Whether the cluster's last answer has a topic.

    Where not, a consumer knows no leader: it fetches nothing, and asks for one for ever.
    Raises: aiokafka's KafkaError when we may not know of it. Else that comes with a fetch.
    """
    told = cast("_Consumer", consumer)._client.cluster
    if topic in told.unauthorized_topics:
        raise theirs.TopicAuthorizationFailedError(topic)
    return told.partitions_for_topic(topic) is not None


def drop_tasks(consumer: object) -> None:
    """End what fetches, and leave to `stop` the connections alone.

    It would raise what ended a task, or the CancelledError of one that waits to try again, which
    looks like our own; and the connections would stay.
    """
    inner = cast("_Consumer", consumer)
    fetcher, inner._fetcher = inner._fetcher, None
    if fetcher is not None:
        for task in (fetcher._fetch_task, *fetcher._pending_tasks):
            task.cancel()
    if inner._client._sync_task is not None and inner._client._sync_task.done():
        inner._client._sync_task = None


class _Member(Protocol):
    """Where a GroupCoordinator has its tasks."""

    _coordination_task: asyncio.Task[None]
    _heartbeat_task: asyncio.Task[None] | None
    _commit_refresh_task: asyncio.Task[None] | None


def drop_member(coordinator: object) -> None:
    """End the tasks of a group's member, whose `close` may have been cut short.

    While it looks for its broker, that is before they ended; and then they would beat for ever.
    """
    inner = cast("_Member", coordinator)
    for task in (inner._coordination_task, inner._heartbeat_task, inner._commit_refresh_task):
        if task is not None:
            task.cancel()


def translate(
    error: Exception, where: str, options: Mapping[str, object] | None = None
) -> MirrorfleetError:
    """An error of a client with `options` as one of ours.

    Without a token, that is why: aiokafka tells only that it has no connection.
    """
    if isinstance(error, theirs.AuthenticationFailedError):
        return AuthenticationError(f"{where}: {error}.")
    if isinstance(error, theirs.BrokerResponseError):
        number = error.errno if isinstance(error.errno, int) else -1
        code = error_code(number)
        if code is not ErrorCode.NONE:
            return BrokerError(code, where, detail=str(error))
    if isinstance(error, theirs.IncompatibleBrokerVersion | theirs.UnsupportedVersionError):
        return UnsupportedError(f"{where}: {error}.")
    said = token_trouble(options or {}) or f"{str(error) or type(error).__name__}."
    return ConnectionLostError(f"{where}: {said}")
