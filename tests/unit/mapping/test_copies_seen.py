"""Whether what groups have read is there still, and its copy, asked for the console's pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import pytest

from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.group_members import GroupDescription
from mirrorfleet.kafka.groups import GroupOffsets, GroupState, ListedGroup
from mirrorfleet.mapping import group_asking
from mirrorfleet.mapping.group_asking import KEPT_S, GroupAsker
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.floors import Seen, Sides
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.offsets.index import OffsetIndex
from tests.fakes.clock import HandClock
from tests.unit.mapping.targets import Target, away, deleted, hidden, made_again, source_of
from tests.unit.views.making import entry

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.views.groups import GroupFacts

COPIED = (entry(0), entry(1), entry(0, topic="carts"))
COPIES = Copies(COPIED, OffsetIndex())
ORDERS = COPIED[:2]
ID_OF_ORDERS = ORDERS[0].identity.source_topic_id


@pytest.fixture(autouse=True)
def _answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Group g has read both partitions of orders, and what is not copied."""
    read = [*(one.source for one in ORDERS), TopicPartition("local", 0)]

    async def list_groups(*_: object, **__: object) -> dict[str, ListedGroup]:
        return {"g": ListedGroup("g", GroupState.EMPTY, 1)}

    async def fetch_offsets(
        cluster: Cluster, groups: Sequence[str], **_: object
    ) -> dict[str, GroupOffsets]:
        offsets = dict.fromkeys(read, GroupOffset(5)) if cluster.name == "east" else {}
        return dict.fromkeys(groups, offsets)

    async def describe_groups(
        _: object, groups: Sequence[str], **__: object
    ) -> dict[str, GroupDescription]:
        return {name: GroupDescription(name, GroupState.EMPTY, ()) for name in groups}

    async def starts_of(
        cluster: Cluster, wanted: AbstractSet[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        assert cluster.name == "west"
        assert wanted == {one.target for one in ORDERS}  # of what is there: others take seconds
        return dict(zip(sorted(wanted), (3, None), strict=True))

    monkeypatch.setattr(group_asking, "starts_of", starts_of)
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
    ("source", "target", "seen"),
    [
        (Target, Target, Sides(Seen.THERE, Seen.THERE)),
        (Target, deleted, Sides(Seen.THERE, Seen.GONE)),
        (Target, made_again, Sides(Seen.THERE, Seen.GONE)),
        (Target, hidden, Sides(Seen.THERE, Seen.UNSURE)),
        (made_again, Target, Sides(Seen.GONE, Seen.THERE)),
        (hidden, Target, Sides(Seen.UNSURE, Seen.THERE)),
    ],
)
async def test_what_groups_have_read_and_its_copies_are_looked_for_once_in_a_while(
    ask: Ask, source: Callable[[], Target], target: Callable[[], Target], seen: Sides
) -> None:
    here, there, clock = source_of(source(), topic_id=ID_OF_ORDERS), target(), HandClock()
    asker = GroupAsker(here.cluster(), there.cluster(), clock, 1.0)

    facts = await ask(asker)
    await ask(asker)

    assert facts.sides == {one.identity: seen for one in ORDERS}
    told = seen.target is Seen.THERE
    assert facts.target_starts == ({ORDERS[0].target: 3} if told else {})
    assert (here.asked, there.asked) == ([["orders"]], [["east.orders"]])
    clock.seconds += KEPT_S
    await ask(asker)
    assert (here.asked, there.asked) == ([["orders"]] * 2, [["east.orders"]] * 2)


@BOTH_PAGES
async def test_a_target_that_is_away_is_an_error(ask: Ask) -> None:
    with pytest.raises(DeadlineError):
        await ask(GroupAsker(source_of().cluster(), away().cluster(), HandClock(), 1.0))
