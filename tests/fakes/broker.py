"""A broker in this process, for faults that a real one cannot be made to show.

`broker.then(api_key, step, ...)` scripts the next answers to an API; each step is used once, then
the default comes back. What was asked is in `broker.seen`.

What it does not do: keep records, groups, ACLs, sessions, quotas, TLS or SASL; it never checks
what a real broker would refuse, except the epoch of a transactional id. Contract tests run on it
and on real brokers wherever both can show the same thing.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import io
import struct
import uuid
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import Any, Self

from kio.index import load_payload_module, load_request_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from mirrorfleet.core.primitives import skip_tags

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 3, 10, 18
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 22, 24, 26

KAFKA_4_3 = {
    PRODUCE: (3, 13),
    FETCH: (4, 17),
    METADATA: (0, 13),
    FIND_COORDINATOR: (0, 6),
    API_VERSIONS: (0, 4),
    INIT_PRODUCER_ID: (0, 5),
    ADD_PARTITIONS: (0, 5),
    END_TXN: (0, 5),
}


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    api_key: int
    version: int
    request: Any


@dataclass(frozen=True)
class HangUp:
    """Close the connection instead of answering; the request was received."""


@dataclass(frozen=True)
class Silence:
    """Never answer."""


Step = Callable[[Asked], object]
"""Gives the answer's entity, or HangUp or Silence."""


def no_time(milliseconds: int = 0) -> i32Timedelta:
    return i32Timedelta.parse(dt.timedelta(milliseconds=milliseconds))


def answers(asked: Asked) -> Any:
    """The module of the answer's schema."""
    module: ModuleType = load_payload_module(asked.api_key, asked.version, EntityType.response)
    return module


def hang_up(_: Asked) -> HangUp:
    return HangUp()


def stay_silent(_: Asked) -> Silence:
    return Silence()


class FakeBroker:
    """An async context manager; listens on a free port of 127.0.0.1."""

    def __init__(self, cluster_id: str = "fake-cluster", metadata_level: int = 30) -> None:
        self.cluster_id = cluster_id
        self.metadata_level = metadata_level
        self.apis = dict(KAFKA_4_3)
        self.seen: list[Asked] = []
        self.brokers: dict[int, tuple[str, int]] = {}
        self.epochs: dict[str, int] = {}
        self._scripts: dict[int, deque[Step]] = defaultdict(deque)
        self._connections: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._defaults: dict[int, Callable[[Asked], object]] = {
            API_VERSIONS: self._api_versions,
            METADATA: self._metadata,
            FIND_COORDINATOR: self._coordinator,
            INIT_PRODUCER_ID: self._init_producer_id,
            END_TXN: self._end_txn,
        }

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.brokers = self.brokers or {1: self.address}
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.die()

    @property
    def address(self) -> tuple[str, int]:
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    @property
    def bootstrap(self) -> str:
        return "{}:{}".format(*self.address)

    def then(self, api_key: int, *steps: Step) -> None:
        """Answer the next requests of this API so, one step each."""
        self._scripts[api_key].extend(steps)

    def asked(self, api_key: int) -> list[Any]:
        """The requests of this API, oldest first."""
        return [asked.request for asked in self.seen if asked.api_key == api_key]

    async def die(self) -> None:
        """Close everything; the port refuses from now on."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._connections):
                writer.transport.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                if not await self._answer(frame, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, frame: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False to hang up."""
        key, version, correlation, client = struct.unpack_from(">hhih", frame)
        schema: Any = load_request_schema(key, version)
        at = 10 + max(client, 0)
        at = skip_tags(frame, at) if schema.__flexible__ else at
        asked = Asked(key, version, entity_reader(schema)(frame, at)[0])
        self.seen.append(asked)
        script = self._scripts[key]
        step = script.popleft() if script else self._defaults[key]
        said = step(asked)
        found = await said if isinstance(said, Awaitable) else said
        if isinstance(found, HangUp):
            return False
        if isinstance(found, Silence):
            return True
        out = io.BytesIO()
        entity: Any = found
        entity_writer(type(entity))(out, entity)
        tags = b"\0" if entity.__flexible__ and key != API_VERSIONS else b""
        body = struct.pack(">i", correlation) + tags + out.getvalue()
        writer.write(struct.pack(">i", len(body)) + body)
        await writer.drain()
        return True

    # -- defaults

    def _api_versions(self, asked: Asked) -> object:
        schema = answers(asked)
        extra: dict[str, object] = {}
        if asked.version >= 3:
            extra["supported_features"] = (
                schema.SupportedFeatureKey(
                    name="metadata.version", min_version=7, max_version=self.metadata_level
                ),
            )
            extra["finalized_features"] = (
                schema.FinalizedFeatureKey(
                    name="transaction.version", max_version_level=2, min_version_level=2
                ),
            )
        if asked.version >= 1:
            extra["throttle_time"] = no_time()
        ranges = tuple(
            schema.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.apis.items()
        )
        return schema.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=ranges, **extra)

    def _metadata(self, asked: Asked) -> object:
        return self.metadata(asked)

    def metadata(self, asked: Asked, throttle_ms: int = 0) -> Any:
        """The brokers, and no topics."""
        schema = answers(asked)
        return schema.MetadataResponse(
            throttle_time=no_time(throttle_ms),
            brokers=tuple(
                schema.MetadataResponseBroker(node_id=node, host=host, port=port)
                for node, (host, port) in self.brokers.items()
            ),
            cluster_id=self.cluster_id,
            controller_id=1,
            topics=(),
        )

    def _coordinator(self, asked: Asked) -> object:
        host, port = self.brokers[1]
        return answers(asked).FindCoordinatorResponse(
            throttle_time=no_time(),
            error_code=ErrorCode.none,
            error_message=None,
            node_id=1,
            host=host,
            port=port,
        )

    def _init_producer_id(self, asked: Asked) -> object:
        name = asked.request.transactional_id
        self.epochs[name] = self.epochs.get(name, -1) + 1
        return init_answer(asked, ErrorCode.none, self.epochs[name])

    def _end_txn(self, asked: Asked) -> object:
        request = asked.request
        if request.producer_epoch != self.epochs[request.transactional_id]:
            return end_answer(asked, ErrorCode.producer_fenced)
        if asked.version >= 5:
            self.epochs[request.transactional_id] += 1
        return end_answer(asked, ErrorCode.none)


def init_answer(asked: Asked, code: ErrorCode, epoch: int = -1) -> object:
    """An answer to InitProducerId; the producer id is 7000."""
    return answers(asked).InitProducerIdResponse(
        throttle_time=no_time(),
        error_code=code,
        producer_id=7000 if code is ErrorCode.none else -1,
        producer_epoch=epoch,
    )


def end_answer(asked: Asked, code: ErrorCode) -> object:
    """An answer to EndTxn; v5 hands out the next epoch."""
    extra: dict[str, object] = {}
    if asked.version >= 5 and code is ErrorCode.none:
        request = asked.request
        extra = {"producer_id": request.producer_id, "producer_epoch": request.producer_epoch + 1}
    return answers(asked).EndTxnResponse(throttle_time=no_time(), error_code=code, **extra)


def refuse_end(code: ErrorCode) -> Step:
    """A step that answers EndTxn with an error."""
    return lambda asked: end_answer(asked, code)


def refuse_init(code: ErrorCode) -> Step:
    """A step that answers InitProducerId with an error."""
    return lambda asked: init_answer(asked, code)


def topic_of(broker: FakeBroker, name: str) -> Step:
    """A step that answers Metadata with one topic of two partitions, led by broker 1."""

    def answer(asked: Asked) -> object:
        schema = answers(asked)
        topic = schema.MetadataResponseTopic(
            error_code=ErrorCode.none,
            name=name,
            topic_id=uuid.UUID(int=7),
            is_internal=False,
            partitions=tuple(
                schema.MetadataResponsePartition(
                    error_code=ErrorCode.none,
                    partition_index=number,
                    leader_id=1,
                    leader_epoch=0,
                    replica_nodes=(1,),
                    isr_nodes=(1,),
                    offline_replicas=(),
                )
                for number in range(2)
            ),
        )
        return dataclasses.replace(broker.metadata(asked), topics=(topic,))

    return answer
