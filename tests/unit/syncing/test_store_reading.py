"""What `sync` reads of its catalog is all that its leader has: over the rest it would write."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import FleetName
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.syncing import store as module
from mirrorfleet.syncing.store import Store
from tests.fakes.clock import HandClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.cluster import Cluster


async def everything_there(topics: Sequence[str]) -> SimpleNamespace:
    return SimpleNamespace(topics={name: SimpleNamespace(error=ErrorCode.NONE) for name in topics})


async def test_the_catalog_is_read_up_to_where_its_leader_said_that_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that was replaced, and is asked as well, has less of it."""
    read_to: list[int] = []

    async def list_offsets(
        _: Cluster, asked: dict[TopicPartition, object], *, deadline_s: float | None
    ) -> dict[TopicPartition, ListedOffset]:
        del deadline_s
        return dict.fromkeys(asked, ListedOffset(100, -1, 7))

    async def read_below(_: Cluster, at: TopicPartition, end: int) -> list[object]:
        assert at.topic == "__mirrorfleet.west.catalog"
        read_to.append(end)
        return []

    monkeypatch.setattr(module, "list_offsets", list_offsets)
    monkeypatch.setattr(module, "read_below", read_below)
    cluster = SimpleNamespace(metadata=everything_there)
    store = Store(cast("Cluster", cluster), FleetName("west"), HandClock())

    await store.refresh()
    await store.refresh()  # nothing has changed

    assert read_to == [100]
