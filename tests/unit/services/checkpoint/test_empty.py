"""A copy without a record has a place, too: a group that has none there would be reset by its
consumer, to behind what is copied before that one looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.kafka.offsets import LATEST, ListedOffset, OffsetSpec
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogLoss
from services.checkpoint import link as link_module
from tests.unit.copying.making import entry, identity
from tests.unit.offsets.making import run_of
from tests.unit.services.checkpoint.test_link import World, here, installed, there

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.cluster import Cluster

NO_LEADER = BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "west")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = installed(monkeypatch)
    made.source = {here(0): GroupOffset(5), here(2): GroupOffset(0)}
    return made


def logs_of(
    monkeypatch: pytest.MonkeyPatch, starts: Mapping[int, int], ends: Mapping[int, int | None]
) -> list[set[TopicPartition]]:
    """Where logs of the target begin and end; gives whose ends were asked for, look by look."""
    asked: list[set[TopicPartition]] = []

    async def list_offsets(
        _: Cluster, wanted: Mapping[TopicPartition, OffsetSpec], *, deadline_s: float
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        del deadline_s
        found: dict[TopicPartition, ListedOffset | BrokerError] = {}
        for at, spec in wanted.items():
            offset = ends[at.partition] if spec is LATEST else starts[at.partition]
            found[at] = NO_LEADER if offset is None else ListedOffset(offset, -1, 0)
        asked.extend([set(wanted)] if LATEST in wanted.values() else [])
        return found

    monkeypatch.setattr(link_module, "list_offsets", list_offsets)
    return asked


def copied(loss: CatalogLoss | None = None, runs: Iterable[int] = (0,)) -> Copies:
    """Partition 0 of two has records."""
    index = OffsetIndex()
    for number in runs:
        index.add(identity(number), [run_of(0, 50, 0)])
    return Copies([entry(0), entry(2, loss=loss)], index)


@pytest.mark.parametrize("start", [0, 100], ids=["new", "retention took all of another's records"])
async def test_a_group_is_set_to_where_an_empty_copy_begins(
    world: World, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    asked = logs_of(monkeypatch, {0: 0, 2: start}, {2: start})
    link = world.link()

    await link.look(copied())

    assert world.target == {there(0): GroupOffset(5), there(2): GroupOffset(start)}
    assert asked == [{there(2)}]  # of what the map knows nobody asks
    world.source[here(2)] = GroupOffset(7)
    await link.look(copied(runs=(0, 2)))
    assert world.target[there(2)] == GroupOffset(max(7, start))


@pytest.mark.parametrize(
    ("end", "loss"),
    [(3, None), (None, None), (0, CatalogLoss(cause="target-recreated"))],
    ids=["with records of others", "not told", "that lost what it had"],
)
async def test_of_any_other_copy_that_the_map_does_not_know_nothing_is_set(
    world: World, monkeypatch: pytest.MonkeyPatch, end: int | None, loss: CatalogLoss | None
) -> None:
    logs_of(monkeypatch, {0: 0, 2: 0}, {2: end})

    await world.link().look(copied(loss))

    assert world.target == {there(0): GroupOffset(5)}
