"""The progress topic as a Faust stream, shared out among the instances of the fleet's `lag`.

Faust's group gives each instance some of the topic's partitions, which are the slots: so `lag`
scales, and what a dead instance watched goes to the others. No tables, no web, no leader topic:
what an instance knows, it reads from the control topics when a slot comes to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

import faust
from faust.transport.drivers import aiokafka as driver
from mode.threads import WorkerThread

from mirrorfleet.config.cluster_settings import Mechanism
from mirrorfleet.core.errors import ConnectionLostError, MirrorfleetError
from mirrorfleet.core.ids import FleetName, SlotNumber
from mirrorfleet.core.names import control_topic, service_id
from mirrorfleet.kafka.aiokafka_options import client_options
from mirrorfleet.kafka.tls import FileVersions, file_versions, make_context
from mirrorfleet.lagging.board import Place
from mirrorfleet.records.topics import ControlKind
from mirrorfleet.runtime.lifecycle import describe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from mode.threads import ServiceThread

    from mirrorfleet.config.cluster_settings import ClusterSettings

START_S: Final = 60.0
"""To join the group; its coordinator may be away for a while."""
STOP_S: Final = 5.0
LOOK_S: Final = 5.0
"""Between two looks at a password in a file, and at certificates."""
RAW: Final = "raw"
"""Bytes as they are: `records` reads them."""
METADATA_MS: Final = 10_000
"""A slot that the topic got room for is given to nobody before; Faust would take five minutes."""
OnRecord = Callable[[bytes | None, bytes | None, SlotNumber, Place], None]
OnSlots = Callable[[frozenset[SlotNumber] | None], None]
"""With the slots that are ours from now on; None when nobody listens to any."""


class _Partition(Protocol):
    topic: str
    partition: int


class _Message(Protocol):
    partition: int
    offset: int
    timestamp: float


class _Event(Protocol):
    """One record; key and value as they are."""

    key: bytes | None
    value: bytes | None
    message: _Message


class _Stream(Protocol):
    def events(self) -> AsyncIterator[_Event]: ...


class _Secrets(NamedTuple):
    """What Faust connects with."""

    password: str | None
    files: FileVersions


class _App(Protocol):
    """What we use of `faust.App`."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def wait_until_stopped(self) -> None: ...
    @property
    def should_stop(self) -> bool: ...


class _Thread(WorkerThread):
    """A daemon: Faust's goodbye to a target that is silent must not hold the process."""

    def __init__(self, service: ServiceThread) -> None:
        super().__init__(service)
        self.daemon = True


class _Consumer(driver.Consumer):
    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return driver.AIOKafkaConsumerThread(
            self, loop=self.loop, beacon=self.beacon, Worker=_Thread
        )


class _Transport(driver.Transport):
    Consumer = _Consumer


class ProgressStream:
    """Snapshots of slots as they are written, for as long as `run` runs."""

    def __init__(
        self, settings: ClusterSettings, fleet: FleetName, *, session_s: float, request_s: float
    ) -> None:
        self._settings = settings
        self._topic = control_topic(fleet, ControlKind.PROGRESS)
        self._group = service_id(fleet, "lag")
        self._session_s, self._request_s = session_s, max(request_s, session_s)

    async def run(
        self,
        on_record: OnRecord,
        on_slots: OnSlots,
        watch: Callable[[], Coroutine[None, None, None]],
    ) -> None:
        """Hand on records and the slots that are ours, until cancelled; at the end none is.

        Raises: ConnectionLostError when Faust gave up, `watch` raised, or secrets were renewed or
        are just being replaced; start again after a while.
        """
        # Faust makes a folder for tables that we do not have, by default where it was started,
        # and that cannot be written in a container
        with TemporaryDirectory(prefix="mirrorfleet-lag-") as folder:
            try:
                secrets = self._secrets()
                app = self._app(folder, on_record, on_slots)
            except MirrorfleetError as error:
                raise ConnectionLostError(f"{self._topic}: {error}") from error
            try:
                async with asyncio.timeout(START_S):  # nothing is watched before
                    await app.start()
                async with asyncio.TaskGroup() as group:
                    beside = [
                        group.create_task(self._watch_secrets(secrets), name="secrets"),
                        group.create_task(watch(), name="stalls"),
                    ]
                    await app.wait_until_stopped()
                    for task in beside:
                        task.cancel()
            except Exception as error:
                raise ConnectionLostError(f"{self._topic}: {describe(error)}") from error
            finally:
                on_slots(None)  # before the stop, which may take longer than a worker may be silent
                # a task of its own: mode takes a cancellation of ours for one of its own parts'
                stopping = asyncio.ensure_future(app.stop())
                asyncio.get_running_loop().call_later(STOP_S, stopping.cancel)
                await asyncio.wait((stopping,), timeout=STOP_S)
        raise ConnectionLostError(f"{self._topic}: the stream ended.")

    async def _watch_secrets(self, first: _Secrets) -> None:
        """Look whether they were renewed: Faust connects with the first ones for ever.

        Raises: ConnectionLostError.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            if self._renewed(first):
                raise ConnectionLostError("the password or a certificate was changed.")

    def _renewed(self, first: _Secrets) -> bool:
        """Whether they are others; until all of these are there, the first ones serve."""
        try:
            if self._secrets() == first:
                return False
            _credentials(self._settings)
        except MirrorfleetError:  # files that are being replaced
            return False
        return True

    def _secrets(self) -> _Secrets:
        """As they are now. Raises: ConfigError, ConnectionLostError."""
        security = self._settings.security
        is_secret = security.mechanism not in {None, Mechanism.OAUTHBEARER}
        password = security.read_password() if is_secret else None
        return _Secrets(password, file_versions(security))

    def _app(self, folder: str, on_record: OnRecord, on_slots: OnSlots) -> _App:
        """Made inside the running loop, which Faust looks up as soon as it is asked for."""
        app = faust.App(
            self._group,
            broker=[f"aiokafka://{address}" for address in self._settings.addresses],
            broker_client_id=self._settings.client_id,
            broker_credentials=_credentials(self._settings),
            broker_session_timeout=self._session_s,
            broker_heartbeat_interval=self._session_s / 5,
            broker_request_timeout=self._request_s,
            consumer_auto_offset_reset="latest",
            consumer_metadata_max_age_ms=METADATA_MS,
            stream_wait_empty=False,
            topic_allow_declare=False,
            topic_disable_leader=True,
            web_enabled=False,
            autodiscover=False,
            datadir=folder,
            loop=asyncio.get_running_loop(),
        )
        app.transport = _Transport(app.conf.broker_consumer, app)
        topic = app.topic(
            self._topic, key_type=bytes, value_type=bytes, key_serializer=RAW, value_serializer=RAW
        )

        async def watch(stream: _Stream) -> None:
            async for event in stream.events():
                message = event.message
                place = Place(message.offset, round(message.timestamp * 1000))
                on_record(event.key, event.value, SlotNumber(message.partition), place)

        async def assigned(*found: Iterable[_Partition], **_: object) -> None:
            if app.should_stop:  # a rebalance that was on its way when Faust crashed
                return
            partitions = found[-1]  # after the app itself
            mine = {SlotNumber(tp.partition) for tp in partitions if tp.topic == self._topic}
            on_slots(frozenset(mine))

        app.agent(topic, name="progress")(watch)
        app.on_partitions_assigned.connect(assigned, weak=False)
        return cast("_App", app)


def _credentials(settings: ClusterSettings) -> faust.auth.Credentials | None:
    """How Faust says who we are; None for plain text. Raises: ConfigError, ConnectionLostError."""
    security = settings.security
    context = make_context(security) if security.protocol.tls else None
    if security.mechanism is Mechanism.OAUTHBEARER:
        provider = client_options(settings)["sasl_oauth_token_provider"]
        return faust.auth.OAuthCredentials(oauth_cb=provider, ssl_context=context)
    if security.mechanism is not None:
        return faust.SASLCredentials(
            mechanism=security.mechanism.value,
            username=security.username,
            password=security.read_password(),
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context)
