"""Questions that the map cannot answer are refused in words; groups of a link, row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import BrokerError, DeadlineError, MirrorfleetError, RefusedError
from mirrorfleet.core.ids import (
    ClusterAlias,
    ClusterId,
    FleetName,
    Link,
    SlotNumber,
    TopicPartition,
)
from mirrorfleet.kafka.offsets import EARLIEST, ListedOffset, OffsetSpec
from mirrorfleet.mapping import asking, live
from mirrorfleet.mapping.asking import (
    MOST_OFFSET,
    Direction,
    ask_offset,
    confirmed,
    copies_of,
    parse_partition,
    stated_partition,
    translate,
)
from mirrorfleet.mapping.catalog import CatalogView
from mirrorfleet.mapping.live import source_checked
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.policy.filters import NameFilter
from mirrorfleet.policy.flows import Flow, FlowRule
from mirrorfleet.policy.naming import Naming
from mirrorfleet.records.catalog import CatalogLink, CatalogPartition
from mirrorfleet.runtime.clock import SystemClock
from tests.unit.mapping.targets import Target, away, deleted, hidden, made_again, source_of
from tests.unit.offsets.making import run_of
from tests.unit.records.making import LINK, identity

FORWARD, BACK = Direction.TO_TARGET, Direction.TO_SOURCE


ENTRY = CatalogPartition(
    identity=identity(0),
    link=LINK,
    source_topic="orders",
    target_topic="east.orders",
    slot=SlotNumber(1),
    rule="all",
)


FORMER = pytest.mark.parametrize(
    "known",
    [Link(ClusterAlias("old"), LINK.target), Link(LINK.source, ClusterAlias("old"))],
    ids=["source renamed", "target renamed"],
)


def catalog_of(link: Link) -> CatalogView:
    """One link, under this name, with a copy."""
    view, ids = CatalogView(), (ENTRY.identity.source_cluster, ClusterId("west-ID"))
    view.apply(CatalogLink(link=link, source_cluster=ids[0], target_cluster=ids[1], slots=()))
    view.apply(replace(ENTRY, link=link))
    return view


def copies(*, copied: int) -> Copies:
    index = OffsetIndex()
    if copied:
        index.add(identity(0), [run_of(0, copied, 0)])
    return Copies([ENTRY], index)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("orders-3", TopicPartition("orders", 3)),
        ("orders", TopicPartition("orders", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("a-b", TopicPartition("a-b", 0)),
        ("-1", TopicPartition("-1", 0)),
        ("orders-\u00b2", TopicPartition("orders-\u00b2", 0)),
        ("orders-" + "9" * 5000, TopicPartition("orders-" + "9" * 5000, 0)),
    ],
)
def test_a_partition_is_named_as_kafka_prints_it(text: str, found: TopicPartition) -> None:
    assert parse_partition(text) == found


def test_what_is_to_be_changed_names_its_partition() -> None:
    assert stated_partition("orders-3") == TopicPartition("orders", 3)
    with pytest.raises(RefusedError, match="'orders' names no partition") as refused:
        stated_partition("orders")
    assert "orders-0" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("topic", "offset", "copied", "way", "said"),
    [
        ("orders", -1, 5, FORWARD, "-1 is no offset"),
        ("orders", MOST_OFFSET + 1, 5, FORWARD, "is no offset"),
        ("carts", 1, 5, FORWARD, "no source partition carts-0 is copied by this link"),
        ("orders", 1, 5, BACK, "no target partition orders-0 is copied by this link"),
        ("orders", 1, 0, FORWARD, "nothing of orders-0 is copied yet"),
    ],
)
def test_what_has_no_answer_is_refused(
    topic: str, offset: int, copied: int, way: Direction, said: str
) -> None:
    with pytest.raises(RefusedError, match=said):
        translate(copies(copied=copied), TopicPartition(topic, 0), offset, way)


def test_the_largest_offset_is_the_end_of_the_copy() -> None:
    found = translate(copies(copied=5), TopicPartition("orders", 0), MOST_OFFSET, FORWARD)
    assert (found.offset, str(found.found), found.copied_to) == (5, "end", 5)


AT_0 = ListedOffset(0, -1, 0)


def log_of(cluster: Target, start: ListedOffset | MirrorfleetError) -> Callable[..., object]:
    """ListOffsets as this cluster alone answers it, or not."""

    async def list_offsets(
        asked: Target, wanted: Mapping[TopicPartition, OffsetSpec], *, deadline_s: float
    ) -> dict[TopicPartition, object]:
        assert (asked.name, set(wanted.values()), deadline_s) == (cluster.name, {EARLIEST}, 3.0)
        if isinstance(start, DeadlineError):
            raise start
        return dict.fromkeys(wanted, start)

    return list_offsets


async def asked(
    target: Target,
    topic: str,
    way: Direction,
    monkeypatch: pytest.MonkeyPatch,
    start: ListedOffset | MirrorfleetError = AT_0,
) -> dict[str, object]:
    """Offset 7 of a copy of 20 records, as the command gives it."""
    index = OffsetIndex()
    index.add(identity(0), [run_of(0, 20, 0)])

    async def read_catalog(*_: object) -> SimpleNamespace:
        return SimpleNamespace(of_link=lambda _: [ENTRY], losses={})

    async def load_map(*_: object) -> SimpleNamespace:
        assert target.asked == []  # before the map is read an answer would be too old
        return SimpleNamespace(index=index)

    monkeypatch.setattr(asking, "read_catalog", read_catalog)
    monkeypatch.setattr(asking, "load_map", load_map)
    monkeypatch.setattr(live, "list_offsets", log_of(target, start))
    fleet = FleetName("west")
    answer = await ask_offset(target.cluster(), fleet, LINK, topic, 7, way, SystemClock())
    return answer.row()


BOTH_WAYS = pytest.mark.parametrize(
    ("topic", "way"), [("orders", FORWARD), ("east.orders", BACK)], ids=["to target", "back"]
)
GONE = pytest.mark.parametrize("gone", [deleted, made_again])


@BOTH_WAYS
@GONE
async def test_no_offset_is_translated_by_the_map_of_a_topic_that_was_deleted(
    gone: Callable[[], Target], topic: str, way: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RefusedError, match=r"west: the east\.orders that .* was deleted\."):
        await asked(gone(), topic, way, monkeypatch)


@BOTH_WAYS
async def test_an_answer_says_when_the_target_hides_the_topic_and_only_then(
    topic: str, way: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await asked(Target(), topic, way, monkeypatch)
    unknown = await asked(hidden(), topic, way, monkeypatch)

    assert (known["other_offset"], known["found"]) == (7, "exact")
    assert unknown == known | {
        "unchecked": "not checked: west did not say whether it still has this east.orders."
    }


async def test_a_target_that_is_away_by_then_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeadlineError):
        await asked(away(), "orders", FORWARD, monkeypatch)


async def checked_at(source: Target | None, topic: str, way: Direction) -> dict[str, object]:
    """Offset 7 of a copy of 20 records, after the target was asked."""
    answer = translate(copies(copied=20), TopicPartition(topic, 0), 7, way)
    here = None if source is None else source_of(source).cluster()
    return (await source_checked(here, answer)).row()


@BOTH_WAYS
async def test_no_offset_of_a_source_topic_that_was_made_again_is_translated_nor_one_into_it(
    topic: str, way: Direction
) -> None:
    with pytest.raises(RefusedError, match=r"east: the orders that .* was deleted\."):
        await checked_at(made_again(), topic, way)


UNTOLD = "not checked: east did not say whether it still has this orders."


@BOTH_WAYS
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Target(), None),
        (hidden(), UNTOLD),
        (away(), f"{UNTOLD} east does not answer."),
        (None, UNTOLD),
        (deleted(), "east has no orders now: this is about the one that was deleted."),
    ],
    ids=["there", "hidden", "away", "without its secrets", "deleted"],
)
async def test_an_answer_does_not_need_the_source_and_says_when_that_did_not_confirm_it(
    source: Target | None, said: str | None, topic: str, way: Direction
) -> None:
    found = await checked_at(source, topic, way)

    assert (found["other_offset"], found["found"]) == (7, "exact")
    assert found.get("unchecked") == said


STARTS = pytest.mark.parametrize(
    ("start", "said"),
    [
        (ListedOffset(7, -1, 0), None),
        (ListedOffset(8, -1, 0), "begins at 8 now; nothing below that can be read."),
        (BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "ListOffsets"), None),
        (DeadlineError("no answer"), None),
    ],
    ids=["there", "gone", "without a leader", "away"],
)


@STARTS
async def test_an_answer_says_where_the_targets_log_begins_behind_it(
    start: ListedOffset | MirrorfleetError, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await asked(Target(), "orders", FORWARD, monkeypatch, start)

    assert (found["other_offset"], found["found"]) == (7, "exact")
    assert found.get("unchecked") == (said and f"west: east.orders-0 {said}")


async def test_where_the_targets_log_begins_is_nothing_to_an_answer_about_the_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await asked(Target(), "east.orders", BACK, monkeypatch, ListedOffset(8, -1, 0))

    assert "unchecked" not in found


@STARTS
async def test_an_answer_says_where_the_sources_log_begins_behind_it(
    start: ListedOffset | MirrorfleetError, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of()
    monkeypatch.setattr(live, "list_offsets", log_of(source, start))
    answer = translate(copies(copied=20), TopicPartition("east.orders", 0), 7, BACK)

    found = (await confirmed(source.cluster, answer, BACK)).row()

    assert (found["other_offset"], found["found"]) == (7, "exact")
    assert found.get("unchecked") == (said and f"east: orders-0 {said}")


@BOTH_WAYS
async def test_no_log_is_asked_that_the_answer_is_not_about_or_that_is_not_known_to_be_of_it(
    topic: str, way: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = translate(copies(copied=20), TopicPartition(topic, 0), 7, way)
    source = source_of(Target() if way is FORWARD else deleted())
    monkeypatch.setattr(live, "list_offsets", log_of(Target(name="nobody"), DeadlineError("")))

    found = await confirmed(source.cluster, answer, way)

    assert bool(found.unchecked) is (way is BACK)


FLOW = Flow(
    LINK,
    (FlowRule("all", NameFilter((".*",)), NameFilter((".*",)), Naming.PREFIX),),
    NameFilter(()),
)


@FORMER
async def test_a_link_that_the_catalog_has_under_another_name_is_not_one_without_copies(
    known: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def load_map(*_: object) -> SimpleNamespace:
        return SimpleNamespace(index=OffsetIndex())

    async def found(view: CatalogView) -> Copies:
        return await copies_of(Target().cluster(), FleetName("west"), FLOW, view, SystemClock())

    monkeypatch.setattr(asking, "load_map", load_map)

    assert list(await found(catalog_of(LINK))) == [ENTRY]
    with pytest.raises(RefusedError, match="fleet west has no link east->west") as refused:
        await found(catalog_of(known))
    assert (
        refused.value.hint == f"Links: {known}. What is new or renamed is told by: mirrorfleet plan"
    )
