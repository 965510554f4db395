"""Groups of a link, row by row, while both clusters answer, or one does in part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, RefusedError
from mirrorfleet.core.ids import FleetName, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.groups import GroupOffsets, GroupState, ListedGroup
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.mapping import asking, last_checkpoints
from mirrorfleet.mapping.asking import ask_groups
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.mapping.group_rows import GROUP_COLUMNS
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.homes import GroupOffset
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.records.checkpoint import Checkpoint
from mirrorfleet.runtime.clock import SystemClock
from tests.unit.mapping.targets import Target, hidden, made_again, source_of
from tests.unit.mapping.test_asking import ENTRY, FLOW, GONE, catalog_of, copies
from tests.unit.records.making import LINK

if TYPE_CHECKING:
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.kafka.metadata import Metadata
    from mirrorfleet.policy.flows import Flow


HERE: GroupOffsets = {TopicPartition("orders", 0): GroupOffset(5)}
THERE: GroupOffsets = {TopicPartition("east.orders", 0): GroupOffset(5)}
MAY_NOT = BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "OffsetFetch")


@dataclass(frozen=True)
class Side:
    """What one cluster answers for each group; hidden groups are not listed."""

    answers: dict[str, GroupOffsets | BrokerError]
    hidden: frozenset[str] = frozenset()
    topics: Target = field(default_factory=Target)
    points: tuple[tuple[Checkpoint, int], ...] = ()
    """What checkpoint wrote there, and when."""
    unreadable: bool = False
    """Whether these cannot be read now."""
    name: str = "east"
    cluster_id: str = "east-ID"

    async def metadata(self, names: Sequence[str]) -> Metadata:
        return await self.topics.metadata(names)

    def states(self) -> dict[str, ListedGroup]:
        shown = self.answers.keys() - self.hidden
        return {name: ListedGroup(name, GroupState.EMPTY, 1) for name in shown}


async def whole_logs(
    _: object, wanted: Iterable[TopicPartition], **__: object
) -> dict[TopicPartition, ListedOffset]:
    return {at: ListedOffset(0, -1, 0) for at in wanted}


async def last_points(
    side: Side, _: object, *, unread: object = None
) -> Sequence[tuple[Checkpoint, int]]:
    if side.unreadable and unread is None:
        raise MAY_NOT
    return side.points


async def rows_of(
    source: Side,
    target: Side,
    monkeypatch: pytest.MonkeyPatch,
    *,
    copied: int = 20,
    only: str | None = None,
    view: CatalogView | None = None,
    flow: Flow = FLOW,
) -> list[dict[str, object]]:
    async def list_groups(side: Side, *, any_protocol: bool = False) -> dict[str, ListedGroup]:
        assert any_protocol is (side is target)  # whoever reads the copies, also Connect
        return side.states()

    async def fetch_offsets(
        side: Side, groups: Sequence[str]
    ) -> dict[str, GroupOffsets | BrokerError]:
        return {name: side.answers.get(name, {}) for name in groups}

    async def read_catalog(*_: object) -> CatalogView:
        return view or CatalogView()

    async def mapped(*_: object) -> Copies:
        return copies(copied=copied)

    monkeypatch.setattr(last_checkpoints, "list_offsets", whole_logs)
    for module in (asking, last_checkpoints):
        monkeypatch.setattr(module, "list_groups", list_groups)
        monkeypatch.setattr(module, "fetch_offsets", fetch_offsets)
        monkeypatch.setattr(module, "read_catalog", read_catalog)
        monkeypatch.setattr(module, "last_points", last_points)
    monkeypatch.setattr(asking, "copies_of", mapped)
    source = replace(source, topics=source_of(source.topics))
    one, other = cast("Cluster", source), cast("Cluster", target)
    return await ask_groups(one, other, FleetName("west"), flow, SystemClock(), only=only)


async def test_a_group_that_the_source_refuses_is_a_row_and_the_others_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = Side({"a": MAY_NOT, "b": HERE}), Side({"b": THERE})

    refused, told = await rows_of(source, target, monkeypatch)

    assert refused == dict.fromkeys(GROUP_COLUMNS) | {
        "group": "a",
        "source_state": "Empty",
        "target_state": "Dead",
        "refused": "east: GROUP_AUTHORIZATION_FAILED",
    }
    assert (told["group"], told["target_offset"], told["refused"]) == ("b", 5, None)


async def test_who_reads_both_sides_is_told_also_while_no_checkpoint_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (row,) = await rows_of(Side({"a": HERE}), Side({"a": THERE}, unreadable=True), monkeypatch)

    assert (row["translated"], row["target_offset"], row["unchecked"]) == (5, 5, None)


@pytest.mark.parametrize("hidden", [frozenset[str](), frozenset({"a"})], ids=["listed", "hidden"])
async def test_a_group_that_the_target_refuses_is_not_one_without_offsets_there(
    hidden: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = Side({"a": HERE, "b": HERE}), Side({"a": MAY_NOT}, hidden)

    rows = await rows_of(source, target, monkeypatch)

    assert [(row["group"], row["translated"], row["target_offset"]) for row in rows] == [
        ("a", 5, None),
        ("b", 5, None),
    ]
    assert [row["refused"] for row in rows] == ["west: GROUP_AUTHORIZATION_FAILED", None]


async def test_a_group_has_a_row_also_where_nothing_is_copied_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it the others alone would say that it is in its place."""
    rows = await rows_of(Side({"a": HERE}), Side({"a": THERE}), monkeypatch, copied=0)

    names = ("source_offset", "target_topic", "translated", "target_offset", "unchecked")
    unknown = "nothing of it is in the offset map yet"
    assert [tuple(row[name] for name in names) for row in rows] == [
        (5, "east.orders", None, 5, unknown)
    ]


async def test_both_sides_that_refuse_a_group_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = await rows_of(Side({"a": MAY_NOT}), Side({"a": MAY_NOT}), monkeypatch)

    assert row["refused"] == "east: GROUP_AUTHORIZATION_FAILED; west: GROUP_AUTHORIZATION_FAILED"


@GONE
async def test_an_offset_of_a_group_is_not_translated_into_a_topic_that_was_deleted(
    gone: Callable[[], Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Side({"a": THERE, "b": {}, "c": MAY_NOT}, topics=gone())

    rows = await rows_of(Side(dict.fromkeys("abc", HERE)), target, monkeypatch)

    deleted_words = (
        "west: the east.orders that the offset map is about was deleted."
        " What has its name now, if anything, is another topic."
    )
    assert [(row["translated"], row["found"], row["target_offset"]) for row in rows] == [
        (None, None, 5),
        (None, None, None),
        (None, None, None),
    ]
    assert [row["refused"] for row in rows] == [
        deleted_words,
        deleted_words,
        f"west: GROUP_AUTHORIZATION_FAILED; {deleted_words}",
    ]
    assert target.topics.asked == [["east.orders"]]  # once, however many groups


async def test_an_offset_of_a_group_in_a_topic_that_was_made_again_is_not_translated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Side({"a": HERE}, topics=made_again())

    (row,) = await rows_of(source, Side({"a": THERE}), monkeypatch)

    assert (row["translated"], row["found"], row["target_offset"]) == (None, None, 5)
    assert row["refused"] == (
        "east: the orders that the offset map is about was deleted."
        " What has its name now, if anything, is another topic."
    )


async def test_a_group_is_translated_into_a_topic_that_is_hidden_with_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Side({"a": THERE}, topics=hidden())

    (row,) = await rows_of(Side({"a": HERE}), target, monkeypatch)

    assert (row["translated"], row["refused"]) == (5, None)
    assert (
        row["unchecked"] == "not checked: west did not say whether it still has this east.orders."
    )


COPY = TopicPartition("east.orders", 0)
LOST = BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "east: coordinator of a")
AS_OF = "as of 2023-11-14 22:13:20 UTC"


def point(group: str, at: TopicPartition = COPY) -> tuple[Checkpoint, int]:
    return Checkpoint(group, at, SourceOffset(4), TargetOffset(4)), 1_700_000_000_000


async def test_what_no_rule_takes_for_a_group_any_more_is_not_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody keeps it up."""
    (rule,) = FLOW.rules
    rules = (
        replace(rule, groups=NameFilter(("b",))),
        replace(rule, name="bills", topics=NameFilter(("bills",))),
    )
    target = Side({"a": THERE}, points=(point("a"),))

    flow = replace(FLOW, rules=rules)
    (row,) = await rows_of(Side({"a": LOST}), target, monkeypatch, flow=flow)

    assert (row["translated"], row["refused"]) == (None, "east: COORDINATOR_NOT_AVAILABLE")


@pytest.mark.parametrize("only", [None, "a"])
@pytest.mark.parametrize("hidden", [frozenset[str](), frozenset({"a"})], ids=["listed", "not"])
async def test_a_group_whose_coordinator_is_lost_is_where_its_checkpoint_says(
    hidden: frozenset[str], only: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Side({"a": LOST, "b": HERE}, hidden)
    target = Side({"a": THERE, "b": THERE}, points=(point("a"), point("b")))

    row, *others = await rows_of(source, target, monkeypatch, only=only)

    assert row == {
        "group": "a",
        "topic": "orders",
        "partition": 0,
        "source_offset": 4,
        "target_topic": "east.orders",
        "translated": 4,
        "found": "checkpoint",
        "target_offset": 5,
        "source_state": "Unknown",
        "target_state": "Empty",
        "refused": None,
        "unchecked": f"east does not tell its offsets: COORDINATOR_NOT_AVAILABLE; {AS_OF}",
    }
    told = [(one["group"], one["source_offset"], one["found"]) for one in others]
    assert told == ([] if only else [("b", 5, "exact")])


async def test_a_group_whose_coordinator_is_lost_is_a_row_also_without_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, points = Side({"a": LOST, "b": LOST}), (point("b", TopicPartition("gone", 0)),)

    rows = await rows_of(source, Side({}, points=points), monkeypatch)

    lost = "east: COORDINATOR_NOT_AVAILABLE"
    assert [(row["group"], row["refused"], row["found"]) for row in rows] == [
        ("a", lost, None),
        ("b", lost, None),
    ]


async def test_a_group_that_is_asked_for_and_has_no_coordinator_is_not_said_to_be_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Side({"a": LOST}, frozenset({"a"}))

    (row,) = await rows_of(source, Side({}), monkeypatch, only="a")

    assert (row["source_state"], row["refused"]) == ("Unknown", "east: COORDINATOR_NOT_AVAILABLE")


async def test_a_group_that_is_hidden_from_us_is_where_its_checkpoint_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Side({"a": MAY_NOT}, frozenset({"a"}))

    (row,) = await rows_of(source, Side({"a": THERE}, points=(point("a"),)), monkeypatch)

    assert (row["translated"], row["target_offset"], row["refused"]) == (4, 5, None)
    assert row["unchecked"] == (
        f"east does not tell its offsets: GROUP_AUTHORIZATION_FAILED; {AS_OF}"
    )


async def test_a_group_that_is_not_listed_and_has_offsets_is_told_as_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Side({"a": HERE}, frozenset({"a"}))

    (row,) = await rows_of(source, Side({"a": THERE}, points=(point("a"),)), monkeypatch)

    assert (row["source_state"], row["source_offset"], row["found"]) == ("Unknown", 5, "exact")


async def test_a_group_that_is_gone_at_the_source_is_not_told_by_its_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = Side({"b": HERE}), Side({"a": THERE}, points=(point("a"),))

    assert [row["group"] for row in await rows_of(source, target, monkeypatch)] == ["b"]
    with pytest.raises(RefusedError, match="'a' is no group of east that a rule takes"):
        await rows_of(source, target, monkeypatch, only="a")


async def test_a_group_of_another_protocol_is_no_group_of_the_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Side({"connect-x": HERE}, frozenset({"connect-x"}))

    with pytest.raises(RefusedError, match="'connect-x' is no group of east"):
        await rows_of(source, Side({}), monkeypatch, only="connect-x")


@pytest.mark.parametrize("only", [None, "a"])
async def test_the_groups_of_a_source_that_was_built_anew_are_where_their_checkpoints_say(
    only: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = Side({"new": HERE}), Side({"a": THERE}, points=(point("a"),))

    rows = await rows_of(source, target, monkeypatch, only=only, view=catalog_of(LINK))

    assert [(row["group"], row["translated"], row["target_offset"]) for row in rows] == [
        ("a", 4, 5)
    ]
    assert rows[0]["unchecked"] == (
        "alias east means cluster east-ID now, but the catalog of fleet west knows it as"
        f" {ENTRY.identity.source_cluster}; {AS_OF}"
    )


async def test_a_source_that_was_built_anew_is_an_error_where_nobody_has_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(RefusedError, match="alias east means cluster east-ID now"):
        await rows_of(Side({}), Side({}), monkeypatch, view=catalog_of(LINK))


async def test_a_source_that_is_the_one_of_the_catalog_is_asked_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Side({"a": HERE}, cluster_id=ENTRY.identity.source_cluster)

    (row,) = await rows_of(source, Side({"a": THERE}), monkeypatch, view=catalog_of(LINK))

    assert (row["source_offset"], row["found"]) == (5, "exact")
