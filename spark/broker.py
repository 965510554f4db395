"""What the connector does not do: ends of partitions, and DeleteRecords; by Java's AdminClient.

The client lives in the driver's JVM, beside the connector, and takes the same properties.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError

from mirrorfleet.core.errors import MirrorfleetError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_MS: Final = 30_000
_UNKNOWN: Final = "UnknownTopicOrPartitionException"
_HINTS: Final = {
    _UNKNOWN: "`sync` of this fleet makes its control topics: start it.",
    "TimeoutException": "Is the cluster up, and its address in the estate right?",
}
_HINT: Final = "Check the addresses and rights of this cluster in the estate."
_RECORDS_TO_DELETE: Final = "org.apache.kafka.clients.admin.RecordsToDelete"


class BrokerSideError(MirrorfleetError):
    """Raised when the cluster refuses or cannot be reached; has Kafka's own words."""


class UnknownTopicError(BrokerSideError):
    """Raised when the cluster has no such topic. The hint is for a control topic."""


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [start, end) of one partition that a committed reader can read."""

    start: int
    end: int


class Admin:
    """One cluster, by the properties of a Java client."""

    def __init__(self, session: SparkSession, options: Mapping[str, str]) -> None:
        self._gateway = session.sparkContext._gateway
        self._jvm = session.sparkContext._jvm
        timeouts = {
            "request.timeout.ms": str(TIMEOUT_MS // 2),
            "default.api.timeout.ms": str(TIMEOUT_MS),
        }
        self._options = {**timeouts, **options}

    def ranges(self, topic: str, since_ms: int | None = None) -> dict[int, Range]:
        """By partition, of records since a time or of all; the end is the last stable offset.

        Raises: UnknownTopicError, BrokerSideError.
        """
        spec = self._jvm.org.apache.kafka.clients.admin.OffsetSpec
        first = spec.earliest() if since_ms is None else spec.forTimestamp(since_ms)
        with self._client(f"topic {topic}") as client:
            numbers = self._numbers(client, topic)
            starts = self._offsets(client, topic, numbers, first)
            ends = self._offsets(client, topic, numbers, spec.latest())
        # a partition without a record since then is told as -1
        return {n: Range(starts[n] if starts[n] >= 0 else ends[n], ends[n]) for n in numbers}

    def written(self, topic: str) -> dict[int, int]:
        """By partition, where all that is written ends, open transactions too: high watermarks.

        Raises: BrokerSideError.
        """
        latest = self._jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
        with self._client(f"topic {topic}") as client:
            numbers = self._numbers(client, topic)
            return self._offsets(client, topic, numbers, latest, "READ_UNCOMMITTED")

    def _numbers(self, client: JavaObject, topic: str) -> list[int]:
        names = self._jvm.java.util.ArrayList()
        names.add(topic)
        described = client.describeTopics(names).allTopicNames().get().get(topic)
        return sorted(each.partition() for each in described.partitions())

    def _offsets(
        self,
        client: JavaObject,
        topic: str,
        numbers: Sequence[int],
        spec: JavaObject,
        isolation: str = "READ_COMMITTED",
    ) -> dict[int, int]:
        level = self._jvm.org.apache.kafka.common.IsolationLevel.valueOf(isolation)
        options = self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level)
        asked = self._jvm.java.util.HashMap()
        for number in numbers:
            asked.put(self._partition(topic, number), spec)
        answer = client.listOffsets(asked, options).all().get()
        return {each.getKey().partition(): each.getValue().offset() for each in answer.entrySet()}

    def free(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records below an offset of each partition, for ever.

        Raises: BrokerSideError.
        """
        with self._client(f"freeing {topic}") as client:
            wanted = self._jvm.java.util.HashMap()
            for number, offset in before.items():
                wanted.put(self._partition(topic, number), self._before(offset))
            client.deleteRecords(wanted).all().get()

    def _before(self, offset: int) -> JavaObject:
        """`RecordsToDelete.beforeOffset`: of two methods of this name py4j takes either."""
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        methods = loader.loadClass(_RECORDS_TO_DELETE).getMethods()
        (maker,) = (
            each
            for each in methods
            if each.getName() == "beforeOffset" and each.getParameterCount() == 1
        )
        values = self._gateway.new_array(self._jvm.java.lang.Object, 1)
        values[0] = offset
        return maker.invoke(None, values)

    def _partition(self, topic: str, number: int) -> JavaObject:
        return self._jvm.org.apache.kafka.common.TopicPartition(topic, number)

    @contextmanager
    def _client(self, what: str) -> Iterator[JavaObject]:
        properties = self._jvm.java.util.Properties()
        for name, value in self._options.items():
            properties.setProperty(name, value)
        try:
            client = self._jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
            try:
                yield client
            finally:
                client.close(self._jvm.java.time.Duration.ofSeconds(5))
        except Py4JJavaError as error:
            cause = _telling(error)
            name = cause.getClass().getSimpleName()
            raised = UnknownTopicError if name == _UNKNOWN else BrokerSideError
            raise raised(
                f"{what} at {self._options['bootstrap.servers']}: {cause.toString()}.",
                hint=_HINTS.get(name, _HINT),
            ) from None


def _telling(error: Py4JJavaError) -> JavaObject:
    """The first of its causes that we have words for; the last one when there is none."""
    cause = error.java_exception
    while cause.getClass().getSimpleName() not in _HINTS and cause.getCause() is not None:
        cause = cause.getCause()
    return cause
