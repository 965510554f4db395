"""A cluster whose topics are lists: what the connector reads and writes, and its admin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import cast

from pyspark.sql import DataFrame, SparkSession

from spark import schemas
from spark.broker import Admin, Range, UnknownTopicError
from spark.jobs.running import Cluster
from tests.spark.control_topics import BEGUN_MS, Keyed, Record
from tests.spark.frames import frame


class Logs:
    """Takes the place of `io.read_topic`, `io.write_topic` and `Admin`."""

    def __init__(self, session: SparkSession, topics: Mapping[str, int]) -> None:
        """`topics`: how many partitions each has."""
        self.session = session
        self.kept: dict[str, list[Record]] = {topic: [] for topic in topics}
        self.ends = {topic: [0] * partitions for topic, partitions in topics.items()}
        self.starts = {topic: [0] * partitions for topic, partitions in topics.items()}
        self.meanwhile: dict[str, list[Callable[[], None]]] = defaultdict(list)
        """What happens, in turn, between the end that a read of a topic has and that read."""
        self.asked: list[dict[int, tuple[int, int]]] = []
        self.cluster = Cluster(session, {}, cast("Admin", self))

    def append(self, topic: str, *entries: Keyed, partition: int = 0) -> None:
        for key, value in entries:
            offset = self.ends[topic][partition]
            self.ends[topic][partition] += 1
            self.kept[topic].append((partition, offset, BEGUN_MS, 0, key, value, None))

    def replace_last(self, topic: str, other: Keyed, partition: int) -> None:
        """Have readers be shown another record, as where the last one was aborted after all."""
        number = max(n for n, row in enumerate(self.kept[topic]) if row[0] == partition)
        at, offset, *_ = self.kept[topic][number]
        self.kept[topic][number] = (at, offset, BEGUN_MS, 0, *other, None)

    def clean(self, topic: str) -> None:
        """As the cleaner does at last: one record a key, and none where that is a tombstone."""
        last = {(row[0], row[4]): row for row in self.kept[topic]}
        self.kept[topic] = [row for row in last.values() if row[5] is not None]

    def live(self, topic: str, partition: int) -> list[Keyed]:
        """The last record of each key that is not removed."""
        last = {row[4]: row[5] for row in self.kept[topic] if row[0] == partition}
        return [(key, value) for key, value in last.items() if value is not None]

    def values(self, topic: str, partition: int) -> list[bytes | None]:
        return [row[5] for row in self.kept[topic] if row[0] == partition]

    def ranges(self, topic: str, _since_ms: int | None = None) -> dict[int, Range]:
        if topic not in self.kept:
            raise UnknownTopicError(f"topic {topic}.")
        both = zip(self.starts[topic], self.ends[topic], strict=True)
        return {number: Range(start, end) for number, (start, end) in enumerate(both)}

    def written(self, topic: str) -> dict[int, int]:
        return {number: each.end for number, each in self.ranges(topic).items()}

    def free(self, topic: str, before: Mapping[int, int]) -> None:
        for number, offset in before.items():
            self.starts[topic][number] = offset
        gone = self.starts[topic]
        self.kept[topic] = [row for row in self.kept[topic] if row[1] >= gone[row[0]]]

    def read_topic(
        self,
        _session: SparkSession,
        _options: Mapping[str, str],
        topic: str,
        ranges: Mapping[int, Range],
    ) -> DataFrame:
        if self.meanwhile[topic]:
            self.meanwhile[topic].pop(0)()
        self.asked.append({number: (each.start, each.end) for number, each in ranges.items()})
        read = [
            row
            for row in self.kept[topic]
            if row[0] in ranges and ranges[row[0]].start <= row[1] < ranges[row[0]].end
        ]
        return frame(self.session, read, schemas.RECORDS)

    def write_topic(self, records: DataFrame, _options: Mapping[str, str], topic: str) -> None:
        for row in records.select("partition", "key", "value").collect():
            value = None if row.value is None else bytes(row.value)
            self.append(topic, (bytes(row.key), value), partition=row.partition)
