"""Topics whose copies checkpoint cannot speak of are told, and the others are looked at."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import NO_TOPIC_ID
from mirrorfleet.offsets.homes import GroupOffset
from services.checkpoint import link as link_module
from tests.unit.services.checkpoint.test_link import (
    ANOTHER_TOPIC,
    World,
    copied,
    here,
    installed,
    there,
)

if TYPE_CHECKING:
    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.offsets import ListedOffset

COPY = "topic east.orders"
ANOTHER = "that the offset map is about was deleted. What has its name now, if anything, is another"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return installed(monkeypatch)


def refusing(world: World, monkeypatch: pytest.MonkeyPatch, code: ErrorCode) -> None:
    """Of the second partition of two the target does not tell where its log begins."""
    listed = world.list_offsets

    async def list_offsets(
        cluster: Cluster, wanted: Iterable[TopicPartition], *, deadline_s: float
    ) -> dict[TopicPartition, ListedOffset | BrokerError]:
        found = await listed(cluster, wanted, deadline_s=deadline_s)
        refused = BrokerError(code, "west: ListOffsets")
        return {at: refused if at == there(1) else one for at, one in found.items()}

    monkeypatch.setattr(link_module, "list_offsets", list_offsets)


async def test_a_copy_that_we_may_not_describe_is_told_once_and_the_others_are_set(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refusing(world, monkeypatch, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    link = world.link()

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await link.look(copied())

    assert link.report.refused.keys() == {COPY}
    assert "TOPIC_AUTHORIZATION_FAILED" in link.report.refused[COPY]
    assert len([one for one in caplog.records if COPY in str(one.__dict__)]) == 1
    assert world.target == {there(0): GroupOffset(5)}


async def test_a_copy_without_a_leader_is_waited_for_and_not_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(world, monkeypatch, ErrorCode.LEADER_NOT_AVAILABLE)
    link = world.link()

    await link.look(copied())

    assert link.report.refused == {}


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        ("west", "not checked: west did not say whether it still has this east.orders."),
        ("east", "not checked: east did not say whether it still has this orders."),
    ],
)
async def test_a_topic_that_either_side_hides_is_told(world: World, hidden: str, said: str) -> None:
    if hidden == "west":
        world.topic_id = NO_TOPIC_ID
    else:
        world.source_id = NO_TOPIC_ID
    link = world.link()

    await link.look(copied())

    assert (link.report.refused, world.commits) == ({COPY: said}, [])


async def test_a_copy_that_was_deleted_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(world, monkeypatch, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    world.source, world.is_deleted = {here(1): GroupOffset(5)}, True
    link = world.link()

    await link.look(copied())

    assert link.report.refused[COPY].startswith(f"west: the east.orders {ANOTHER}")


async def test_a_source_topic_that_was_made_again_is_told(world: World) -> None:
    world.source_id = ANOTHER_TOPIC
    link = world.link()

    await link.look(copied())

    assert link.report.refused[COPY].startswith(f"east: the orders {ANOTHER}")
