"""Groups by the thousand: others have their turns meanwhile, and gone ones are let go of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import SourceOffset, TargetOffset
from mirrorfleet.kafka.groups import GroupState, ListedGroup
from mirrorfleet.mapping.written import WrittenTail
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.records.checkpoint import Checkpoint
from services.checkpoint import gone
from services.checkpoint import link as link_module
from tests.unit.services.checkpoint.test_link import (
    MAY_NOT,
    Answers,
    World,
    copied,
    installed,
    there,
)

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster

NO_COORDINATOR = BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "west")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return installed(monkeypatch)


class Written(WrittenTail):
    """A checkpoints topic that was read before."""

    def __init__(self, *groups: str) -> None:
        super().__init__(cast("Cluster", SimpleNamespace()), "checkpoints")
        for group in groups:
            point = Checkpoint(group, there(0), SourceOffset(5), TargetOffset(5))
            self._last[group, there(0)] = point
            self._written[group] = {there(0): (TargetOffset(5),)}

    async def refresh(self) -> None:
        pass


async def test_others_have_a_turn_after_each_group_that_is_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {f"g{n}": ListedGroup(f"g{n}", GroupState.EMPTY, 1) for n in range(40)}
    turns = 0

    async def list_groups(*_: object, **__: object) -> dict[str, ListedGroup]:
        return many

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    monkeypatch.setattr(link_module, "list_groups", list_groups)
    link = world.link()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(others())
        await link.look(copied())
        task.cancel()

    assert len(link.report.decisions) == len(many)
    assert turns >= len(many) - 1  # they begin in the first one


@pytest.mark.parametrize(
    ("on_source", "on_target", "is_forgotten"),
    [
        ({}, {}, True),
        ({}, {there(0): GroupOffset(5)}, False),
        ({there(0): GroupOffset(5)}, {}, False),
        ({}, MAY_NOT, False),
        (NO_COORDINATOR, {}, False),
    ],
    ids=["both lost it", "only the source", "only the target", "hidden", "not answered for"],
)
async def test_a_group_that_both_sides_lost_is_forgotten(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    *,
    on_source: object,
    on_target: object,
    is_forgotten: bool,
) -> None:
    asked: list[tuple[str, list[str]]] = []

    async def fetch_offsets(
        cluster: Cluster, groups: Iterable[str], *, once: bool, deadline_s: float
    ) -> Answers:
        assert once
        assert deadline_s > 0
        asked.append((cluster.name, list(groups)))
        answer = on_source if cluster.name == "east" else on_target
        return dict.fromkeys(asked[-1][1], answer)  # type: ignore[arg-type]  # as parametrized

    monkeypatch.setattr(gone, "fetch_offsets", fetch_offsets)
    link, ours, echoes = world.link(), Written("old", "g"), Written("old")
    link._ours, link._echoes = ours, echoes
    link._rewritten_at = {("old", there(0)): 1.0, ("g", there(0)): 1.0}

    for _ in range(3):
        await link.look(copied())

    kept = set() if is_forgotten else {"old"}
    assert ours.groups == {"g", *kept}
    assert echoes.groups == kept
    assert {group for group, _ in ours._last} == {"g", *kept}
    assert {group for group, _ in link._rewritten_at} == {"g", *kept}
    assert len(asked) <= 2  # whoever is kept is not asked for at each look
    assert all(groups == ["old"] for _, groups in asked)


async def test_of_many_gone_groups_some_are_asked_for_at_a_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch_offsets(_: Cluster, groups: Iterable[str], **__: object) -> Answers:
        return {group: {} for group in groups}

    monkeypatch.setattr(gone, "fetch_offsets", fetch_offsets)
    monkeypatch.setattr(gone, "A_LOOK", 2)
    link, ours = world.link(), Written(*"abcde")
    link._ours = ours

    left = []
    for _ in range(3):
        await link.look(copied())
        left.append(len(ours.groups))

    assert left == [3, 1, 0]
