"""What the ledger is told when one incarnation of a partition follows another, or none does."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest.mock import AsyncMock
from uuid import UUID

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.partition import SourceEnds
from mirrorfleet.copying.remedies import Step, by_policy, by_request
from mirrorfleet.core.errors import DeadlineError, MirrorfleetError
from mirrorfleet.core.ids import SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.kafka.offsets import ListedOffset
from mirrorfleet.offsets.gone import Written
from mirrorfleet.offsets.index import PartitionMap
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.records.commands import Action
from mirrorfleet.records.incarnations import start_at
from mirrorfleet.slots import freshness, leaving, ledger, succession, taking, target_loss
from mirrorfleet.slots.freshness import Freshness
from mirrorfleet.slots.outgoing import AbortError
from tests.unit.copying.making import LINK, asked, entry, identity, slot, span
from tests.unit.offsets.making import run_of
from tests.unit.views.making import report

if TYPE_CHECKING:
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.records.events import Event
    from mirrorfleet.records.positions import Position
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

OTHER = UUID(int=0xC)
COPIED = 1_000


async def found_missing(oldest: int, monkeypatch: pytest.MonkeyPatch) -> Fault:
    """What is said of a target topic that was made again, when the source begins there."""

    async def starts(_: object, wanted: dict[TopicPartition, object]) -> object:
        return {at: ListedOffset(oldest, -1, 0) for at in wanted}

    monkeypatch.setattr(target_loss, "list_offsets", starts)
    made = slot()
    (partition,) = made.partitions.values()
    position = replace(partition.committed, next_source=SourceOffset(COPIED))
    partition.committed = replace(position, next_target=TargetOffset(COPIED))
    known = PartitionMap()
    known.add(run_of(0, COPIED, 0))
    runner = SimpleNamespace(
        slot=made,
        source=None,
        sources=SimpleNamespace(topic_id=lambda topic: None),
        targets=SimpleNamespace(topic_id=lambda topic: OTHER),
    )
    fault = Fault(FaultReason.TARGET_RECREATED, SourceOffset(COPIED), "made again")
    written = [Written(partition.identity.source_topic_id, known)]
    return await target_loss._exact(cast("SlotRunner", runner), partition, fault, written)


async def told_of(fault: Fault, step: Step | str | None) -> list[tuple[str, int, int, int | None]]:
    """The ledger's entries when `sync` has given the incarnation that the step asks for."""
    assert isinstance(step, Step)
    assert step.to is not None
    records = fault.records if step.span == fault.lost else None
    loss = CatalogLoss(cause=fault.reason, first=step.span.first, end=step.span.end)
    following = entry(
        identity=replace(identity(), target_topic_id=OTHER, incarnation=1),
        start=start_at(step.to),
        loss=replace(loss, records=records, request=step.request),
    )
    runner = SimpleNamespace(
        slot=slot(),
        clock=SimpleNamespace(now_ms=lambda: 1),
        owner="me",
        link=LINK,
        mender=SimpleNamespace(answered=lambda request: None),
    )
    events = await succession.told(cast("SlotRunner", runner), [following])
    return [(str(e.kind), e.first or 0, e.end or 0, e.records) for e in events]


@pytest.mark.parametrize(
    ("oldest", "copied_from", "told"),
    [
        (0, 0, [("rewound", 0, 1000, 1000)]),
        (700, 700, [("gap", 0, 700, None), ("rewound", 700, 1000, None)]),
        (1000, 1000, [("gap", 0, 1000, 1000)]),
        (2000, 1000, [("gap", 0, 1000, 1000)]),  # what is behind it, retention overtook
    ],
)
async def test_what_the_target_lost_and_the_source_no_longer_has_is_a_gap(
    oldest: int,
    copied_from: int,
    told: list[tuple[str, int, int, int | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault = await found_missing(oldest, monkeypatch)
    step = by_policy(fault, "recopy")

    assert (fault.lost, fault.records) == (span(0, COPIED), COPIED)
    assert step is not None
    assert step.to == copied_from
    assert await told_of(fault, step) == told


@pytest.mark.parametrize("oldest", [0, 700, 2000])
async def test_all_that_the_target_lost_can_be_accepted_whatever_the_source_still_has(
    oldest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = await found_missing(oldest, monkeypatch)
    accept = asked(Action.ACCEPT_GAP, 0, COPIED)

    accepted = by_request(fault, SourceOffset(COPIED), accept)

    assert await told_of(fault, accepted) == [("gap", 0, 1000, 1000)]


@pytest.mark.parametrize(
    ("to", "told"),
    [
        (0, [("rewound", 0, 1000, 1000)]),  # and retention overtook [0, 700): found by fetching
        (700, [("gap", 0, 700, None)]),
        (1200, [("gap", 0, 1200, None)]),
    ],
)
async def test_of_what_the_target_lost_a_seek_leaves_a_gap_up_to_where_it_goes(
    to: int, told: list[tuple[str, int, int, int | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = await found_missing(700, monkeypatch)

    sought = by_request(fault, SourceOffset(COPIED), asked(Action.SEEK, COPIED, to))

    assert await told_of(fault, sought) == told


class Ending:
    """A slot whose partitions are of a topic that has none any more, and what its ledger takes."""

    aborts = renewals = 0
    is_silent = False
    trouble: MirrorfleetError | None = None
    """Of who is asked for metadata."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slot = slot(entry(0), entry(1))
        for partition in self.slot.partitions.values():
            partition.source = SourceEnds(70, 70, 0)
        self.topic_id: UUID | None = OTHER
        """None: it is away, or not known yet."""
        self.leader: object = "one"
        """Of the ledger."""
        self.needed: set[str] = set()
        self.left: list[TopicPartition] = []
        self.told: list[tuple[str, int | None, int | None, int | None]] = []
        self.sides = sides = SimpleNamespace(
            renew=self._renew,
            renewed=self._renew,
            need=self.needed.update,
            ask=lambda: None,
            as_of=0.0,
            topic_id=lambda topic: self.topic_id,
            of=lambda *_: self.leader,
            has_few=lambda *_: False,
        )
        self.runner = SimpleNamespace(
            slot=self.slot,
            entries={},
            unstarted={},
            owner="me",
            link=LINK,
            sources=sides,
            targets=sides,
            mender=SimpleNamespace(open_request=lambda one: "", answered=lambda request: None),
            clock=SimpleNamespace(now_ms=lambda: 1, monotonic=lambda: 1.0),
            freshness=Freshness(cast("Clock", SimpleNamespace(monotonic=lambda: 1.0))),
            scout=SimpleNamespace(found=lambda new: None),
            fleet="west",
            doubts=SimpleNamespace(doubted=frozenset(), doubt=id, answered=self.left.extend),
            wedges=SimpleNamespace(left_behind=frozenset()),
        )
        monkeypatch.setattr(target_loss, "check_ends", AsyncMock())
        monkeypatch.setattr(ledger, "event_entry", lambda runner, events: events)

    async def _renew(self) -> None:
        self.renewals += 1
        if self.is_silent:
            await asyncio.Event().wait()
        if self.trouble is not None:
            raise self.trouble
        self.sides.as_of = 1.0

    async def commit_control(self, entries: list[list[Event]]) -> None:
        if self.aborts:
            self.aborts -= 1
            raise AbortError("the produce connection is lost")
        self.told += [(str(e.kind), e.partition, e.first, e.end) for each in entries for e in each]

    async def follow(self) -> None:
        await taking.follow_entries(cast("SlotRunner", self.runner), cast("Sender", self))

    async def take_from_another(self) -> None:
        """Take it for the first time, while its source topic is away."""
        self.topic_id = None
        read = [partition.committed for partition in self.slot.partitions.values()]
        self.slot.partitions.clear()
        self.runner.entries = {identity(n): entry(n) for n in (0, 1)}
        await self.take_again(*read)

    async def take_again(self, *read: Position) -> None:
        """As `taking.take` does, with what the positions topic says."""
        self.slot.forget_all()
        self.slot.known = {position.identity: position for position in read}
        await taking.admit_known(cast("SlotRunner", self.runner), cast("Sender", self))


@pytest.mark.parametrize("aborts", [0, 1, 2])
async def test_the_gap_of_a_topic_with_fewer_partitions_is_told_once_whatever_comes_between(
    aborts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = Ending(monkeypatch)
    ending.aborts = aborts

    for _ in range(aborts):
        with pytest.raises(AbortError):
            await ending.follow()
        await ending.take_again()
    await ending.follow()
    await ending.take_again()
    await ending.follow()

    assert ending.told == [("gap", 0, 0, 70), ("gap", 1, 0, 70)]
    assert not ending.slot.left  # nothing is left to tell


async def test_where_a_topic_ended_that_an_owner_of_before_saw_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever took the slot when the topic was gone has seen no end of its own."""
    ending = Ending(monkeypatch)
    ending.slot.ends = {identity(0): 90, identity(1): 90}
    ending.slot.partitions[identity(0)].source = SourceEnds()

    await ending.follow()

    assert ending.told == [("gap", 0, 0, 90), ("gap", 1, 0, 70)]


async def test_where_a_topic_ended_is_known_however_long_it_was_away_before_it_was_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What its next owner tells meanwhile has no end, and hides what was told before."""
    ending = Ending(monkeypatch)
    said = [{identity(n): report(entry(n), high_watermark=SourceOffset(90)) for n in (0, 1)}, {}]
    monkeypatch.setattr(succession, "last_told", AsyncMock(side_effect=said))

    await ending.take_from_another()
    for partition in ending.slot.partitions.values():
        partition.rewind()  # an abort, or a look at what stands
    ending.topic_id, ending.runner.entries = OTHER, {}
    await ending.follow()

    assert ending.told == [("gap", 0, 0, 90), ("gap", 1, 0, 90)]


async def test_of_what_is_copied_no_more_no_leader_is_asked_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be gone for good, and its topic with it."""
    ending = Ending(monkeypatch)
    ending.runner.entries = {identity(0): entry(0)}

    await ending.follow()

    assert ending.left == [entry(1).target]


async def test_who_does_not_tell_where_a_topic_ended_keeps_no_slot_from_being_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ending = Ending(monkeypatch)
    asked = AsyncMock(side_effect=DeadlineError("west does not answer"))
    monkeypatch.setattr(succession, "last_told", asked)

    await ending.take_from_another()

    assert (asked.call_count, len(ending.slot.partitions)) == (1, 2)


@pytest.mark.parametrize(("before", "changed"), [(OTHER, []), (UUID(int=0xD), ["made again"])])
def test_a_topic_that_was_ended_before_is_told_by_a_broker_that_lags(
    before: UUID, changed: list[str]
) -> None:
    """Ids never come back: only another one than all that there were is a new topic."""
    made, now = slot(), entry(identity=replace(identity(), incarnation=1))
    former = replace(identity(), target_topic_id=before)
    made.known = {former: replace(made.partitions[identity()].committed, identity=former)}
    runner = SimpleNamespace(
        slot=made,
        sources=SimpleNamespace(topic_id=lambda _: None),
        targets=SimpleNamespace(topic_id=lambda _: OTHER),
    )

    found = succession.changed_sides(cast("SlotRunner", runner), now)

    assert ["made again" for reason, _, _ in found] == changed


async def test_an_end_that_an_owner_of_before_saw_outlives_a_dismissal() -> None:
    left = slot(entry(0))
    left.ends[identity(0)] = 90
    left.partitions[identity(0)].source = SourceEnds()

    left.dismiss(identity(0))

    assert left.ends == {identity(0): 90}


async def test_a_gap_waits_for_a_ledger_that_is_away_and_the_slot_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ending = Ending(monkeypatch)
    ending.leader = None

    await ending.follow()
    await ending.follow()
    assert (ending.told, ending.slot.partitions, ending.renewals) == ([], {}, 0)

    ending.leader = "another"
    await ending.follow()
    assert ending.told == [("gap", 0, 0, 70), ("gap", 1, 0, 70)]


@pytest.mark.parametrize("trouble", [None, DeadlineError("east does not answer")])
async def test_a_gap_waits_for_a_source_that_is_away_and_the_slot_once_for_a_moment(
    trouble: MirrorfleetError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "WAIT_S", 0.05)
    ending = Ending(monkeypatch)
    ending.is_silent, ending.trouble = trouble is None, trouble
    runner = cast("SlotRunner", ending.runner)

    async with asyncio.timeout(5):
        for _ in range(9):
            await ending.follow()

    assert (ending.told, ending.slot.partitions, ending.renewals) == ([], {}, 1)
    assert not leaving.is_untold(runner)  # nor is it looked at between two transactions
    assert ending.needed == {"orders"}  # which nobody copies any more
    ending.sides.as_of = 1.0  # whoever keeps the table has renewed it
    assert leaving.is_untold(runner)
    await ending.follow()
    assert ending.told == [("gap", 0, 0, 70), ("gap", 1, 0, 70)]
    assert (ending.renewals, leaving.is_untold(runner)) == (1, False)


async def test_the_gap_is_told_from_where_the_positions_say_also_when_taken_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ending = Ending(monkeypatch)
    read = replace(ending.slot.partitions[identity(1)].committed, next_source=SourceOffset(40))

    await ending.take_again(read)
    await ending.follow()

    assert ending.told == [("gap", 0, 0, 70), ("gap", 1, 40, 70)]


async def test_of_partitions_that_nobody_wants_any_more_nothing_is_told_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ending = Ending(monkeypatch)
    ending.topic_id = identity().source_topic_id

    await ending.take_again()
    await ending.follow()
    ending.topic_id = OTHER  # made again long after it was taken out of the rules
    await ending.follow()

    assert ending.told == []
