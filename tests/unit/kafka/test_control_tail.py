"""A control topic as aiokafka brings it: whoever follows it hears when aiokafka begins anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar, cast
from unittest.mock import AsyncMock

import aiokafka
import pytest

from mirrorfleet.core.errors import ConnectionLostError
from mirrorfleet.kafka import control
from mirrorfleet.kafka.control import ControlTail

if TYPE_CHECKING:
    from mirrorfleet.config.cluster_settings import ClusterSettings

TOPIC = "__mirrorfleet.west.catalog"


class Consumer:
    """Gives out these offsets of each partition, an answer at a time."""

    def __init__(self, *answers: dict[int, list[int]]) -> None:
        self.answers = list(answers)

    async def getmany(self, *, timeout_ms: int) -> dict[tuple[str, int], list[SimpleNamespace]]:
        del timeout_ms
        return {
            (TOPIC, partition): [
                SimpleNamespace(offset=at, timestamp=1, key=b"k", value=b"v") for at in offsets
            ]
            for partition, offsets in self.answers.pop(0).items()
        }


def tail_of(monkeypatch: pytest.MonkeyPatch, *answers: dict[int, list[int]]) -> ControlTail:
    """A tail that is open."""
    monkeypatch.setattr(control, "check_tasks", lambda _: None)
    monkeypatch.setattr(control, "is_told_of", lambda *_: True)
    monkeypatch.setattr(control, "token_trouble", lambda *_, **__: "")
    settings = SimpleNamespace(alias="west", request_timeout_s=1.0)
    tail = ControlTail(cast("ClusterSettings", settings), TOPIC)
    monkeypatch.setattr(tail, "_consumer", Consumer(*answers))
    return tail


async def test_records_of_a_compacted_log_come_in_order_with_gaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tail = tail_of(monkeypatch, {0: [0, 4], 1: [7]}, {0: [5, 9], 1: [8]})

    assert [(await anext(tail)).offset for _ in range(6)] == [0, 4, 7, 5, 9, 8]


async def test_a_log_that_was_cut_or_made_again_ends_the_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tail = tail_of(monkeypatch, {0: [0, 4], 1: [7]}, {0: [0, 1]})
    for _ in range(3):
        await anext(tail)

    with pytest.raises(ConnectionLostError, match="partition 0: its log was cut or made again"):
        await anext(tail)


class Opened(Consumer):
    """What aiokafka is asked for."""

    options: ClassVar[dict[str, object]] = {}

    def __init__(self, **options: object) -> None:
        super().__init__()
        self._client = None
        self.options.update(options)

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def assign(self, partitions: list[object]) -> None:
        pass


async def test_a_leader_that_its_cluster_has_lost_is_followed_for_half_a_minute_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tail = tail_of(monkeypatch)
    monkeypatch.setattr(tail, "_look_up", AsyncMock(return_value=[]))
    monkeypatch.setattr(control, "client_options", lambda _: {})
    for name in ("keep_up", "drop_tasks"):
        monkeypatch.setattr(control, name, lambda *_: None)
    monkeypatch.setattr(aiokafka, "AIOKafkaConsumer", Opened)

    async with tail:
        assert Opened.options["metadata_max_age_ms"] == 30_000
