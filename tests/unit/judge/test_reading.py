"""The judge reads again while brokers do not know yet who leads: only its own client is replaced.

Faked, because no broker can be made to be behind another on demand.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.judge import reading
from tests.judge.reading import (
    At,
    ClusterAccess,
    Ends,
    Isolation,
    Order,
    ReadingError,
    TimestampRule,
    read_logs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

AT = At("orders", 0)
ORDER = Order(isolation=Isolation.COMMITTED, timestamps=TimestampRule.SEEN)
EAST = ClusterAccess("east:9092")


class _Record:
    """A record, or the word that there are no more, or a broker's error."""

    def __init__(self, offset: int, code: int | None = None) -> None:
        self._offset, self._code = offset, code

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)

    def topic(self) -> str:
        return AT.topic

    def partition(self) -> int:
        return AT.partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (1, 5)

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"1"

    def headers(self) -> None:
        return None


END = _Record(2, KafkaError._PARTITION_EOF)


class _Consumers:
    """One after the other, each with what it is handed in its first answer."""

    def __init__(self, *handed: list[_Record]) -> None:
        self._handed, self.made = list(handed), 0

    @contextmanager
    def __call__(
        self, access: ClusterAccess, isolation: Isolation, answer_bytes: int
    ) -> Iterator[_Consumers]:
        self.made += 1
        yield self

    def assign(self, partitions: object) -> None:
        """Take anything."""

    def consume(self, batch: int, timeout: float) -> list[_Record]:
        return self._handed.pop(0)


@pytest.fixture
def _ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_ends_of", lambda access, partitions: {AT: Ends(2, 2)})


@pytest.mark.usefixtures("_ends")
@pytest.mark.parametrize("code", sorted(reading.BEHIND))
def test_a_partition_whose_broker_is_behind_is_read_again_from_its_start(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers = _Consumers([_Record(0), _Record(1, code)], [_Record(0), _Record(1), END])
    monkeypatch.setattr(reading, "_consumer", consumers)

    read = read_logs(EAST, [AT], ORDER)[AT]

    assert list(read.log.offsets) == [0, 1]
    assert read.finished
    assert consumers.made == 2


@pytest.mark.usefixtures("_ends")
def test_any_other_word_of_a_broker_ends_the_reading_with_the_cluster_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumers = _Consumers([_Record(0), _Record(1, KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    monkeypatch.setattr(reading, "_consumer", consumers)

    with pytest.raises(ReadingError, match=r"east:9092.*TOPIC_AUTHORIZATION_FAILED"):
        read_logs(EAST, [AT], ORDER)

    assert consumers.made == 1


@pytest.mark.usefixtures("_ends")
def test_a_broker_that_stays_behind_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    consumers = _Consumers([_Record(0, KafkaError.UNKNOWN_LEADER_EPOCH)])
    monkeypatch.setattr(reading, "_consumer", consumers)
    monkeypatch.setattr(reading, "BEHIND_S", -1.0)

    with pytest.raises(ReadingError, match="UNKNOWN_LEADER_EPOCH"):
        read_logs(EAST, [AT], ORDER)


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.OFFSET_NOT_AVAILABLE]
)
def test_ends_are_asked_for_again_too(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[KafkaException | dict[At, Ends]] = [
        KafkaException(KafkaError(code)),
        {AT: Ends(2, 3)},
    ]

    def answer(access: ClusterAccess, partitions: object) -> dict[At, Ends]:
        given = answers.pop(0)
        if isinstance(given, KafkaException):
            raise given
        return given

    monkeypatch.setattr(reading, "_ends_of", answer)

    assert reading.ends_of(EAST, [AT]) == {AT: Ends(2, 3)}
