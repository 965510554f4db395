"""Whether the copies that groups have read are there still, asked for the console's pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.groups import GroupDescription, GroupOffsets, GroupState, ListedGroup
from mirrorfleet.mapping import group_asking
from mirrorfleet.mapping.group_asking import KEPT_S, GroupAsker
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.floors import Seen
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from tests.unit.mapping.targets import Target, away, deleted, hidden, made_again
from tests.unit.views.making import entry

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.views.groups import GroupFacts

SOURCE = cast("Cluster", None)
COPIED = (entry(0), entry(1), entry(0, topic="carts"))
COPIES = Copies(COPIED, OffsetIndex())
ORDERS = COPIED[:2]


class Clock:
    now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return 0


@pytest.fixture(autouse=True)
def _answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Group g has read both partitions of orders, and what is not copied."""
    read = [*(one.source for one in ORDERS), TopicPartition("local", 0)]

    async def list_groups(*_: object, **__: object) -> dict[str, ListedGroup]:
        return {"g": ListedGroup("g", GroupState.EMPTY, 1)}

    async def fetch_offsets(
        cluster: Cluster, groups: Sequence[str], **_: object
    ) -> dict[str, GroupOffsets]:
        offsets = dict.fromkeys(read, GroupOffset(5)) if cluster is SOURCE else {}
        return dict.fromkeys(groups, offsets)

    async def describe_groups(
        _: object, groups: Sequence[str], **__: object
    ) -> dict[str, GroupDescription]:
        return {name: GroupDescription(name, GroupState.EMPTY, ()) for name in groups}

    monkeypatch.setattr(group_asking, "list_groups", list_groups)
    monkeypatch.setattr(group_asking, "fetch_offsets", fetch_offsets)
    monkeypatch.setattr(group_asking, "describe_groups", describe_groups)


async def of_list(asker: GroupAsker) -> GroupFacts:
    return await asker.page(list, COPIES)


async def of_one(asker: GroupAsker) -> GroupFacts:
    return await asker.group("g", COPIES)


BOTH_PAGES = pytest.mark.parametrize("ask", [of_list, of_one])
Ask = Callable[[GroupAsker], Awaitable["GroupFacts"]]


@BOTH_PAGES
@pytest.mark.parametrize(
    ("target", "seen"),
    [
        (Target, Seen.THERE),
        (deleted, Seen.GONE),
        (made_again, Seen.GONE),
        (hidden, Seen.UNSURE),
    ],
)
async def test_copies_that_groups_have_read_are_looked_for_once_in_a_while(
    ask: Ask, target: Callable[[], Target], seen: Seen
) -> None:
    there, clock = target(), Clock()
    asker = GroupAsker(SOURCE, there.cluster(), clock, 1.0)

    facts = await ask(asker)
    await ask(asker)

    assert facts.targets == {one.identity: seen for one in ORDERS}
    assert there.asked == [["east.orders"]]
    clock.now += KEPT_S
    await ask(asker)
    assert there.asked == [["east.orders"]] * 2


@BOTH_PAGES
async def test_a_target_that_is_away_is_an_error(ask: Ask) -> None:
    with pytest.raises(DeadlineError):
        await ask(GroupAsker(SOURCE, away().cluster(), Clock(), 1.0))
