"""What a slot begins with when it was taken."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest.mock import AsyncMock

import pytest

from mirrorfleet.copying.faults import Fault, FaultReason
from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.copying.partition import SourceEnds
from mirrorfleet.copying.recall import Recall
from mirrorfleet.core.errors import DeadlineError
from mirrorfleet.core.ids import ProducerIdentity, SourceOffset, TopicId, TopicPartition
from mirrorfleet.kafka.offsets import ListedOffset, OffsetSpec
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.records.positions import Barrier
from mirrorfleet.slots import endings, healing, ledger, starting, succession, taking
from mirrorfleet.slots.settings import SlotSettings
from mirrorfleet.slots.starting import NOTHING_NEW, Starts, resolve_starts
from mirrorfleet.slots.taking import admit
from tests.unit.copying.making import SOURCE_TOPIC, entry, identity, partition_of, slot

if TYPE_CHECKING:
    from mirrorfleet.core.errors import MirrorfleetError
    from mirrorfleet.records.catalog import CatalogPartition
    from mirrorfleet.records.positions import Entry
    from mirrorfleet.slots.outgoing import ControlEntry
    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

OTHER = TopicId(int=77)
BARRIER = Barrier(owner="me", producer=ProducerIdentity(7, 1), time_ms=5)
NO_DOUBTS = SimpleNamespace(doubted=frozenset(), doubt=lambda _: None)


async def test_what_waited_through_a_take_waits_since_before_it_and_all_else_since_then() -> None:
    made = slot()
    sides = SimpleNamespace(topic_id=lambda topic: None)
    clock = SimpleNamespace(monotonic=lambda: 100.0, now_ms=lambda: 5)
    runner = SimpleNamespace(
        slot=made, clock=clock, unstarted={}, sources=sides, targets=sides, doubts=NO_DOUBTS
    )
    since = []
    for end, moved_to in ((50, 0), (0, 0), (50, 1)):
        partition = partition_of(made)
        partition.source, partition.progress_at = SourceEnds(end, end, 0), 5.0
        position = replace(partition.committed, next_source=SourceOffset(moved_to))
        made.forget_all()
        made.known[identity()] = position

        await admit(
            cast("SlotRunner", runner), cast("Sender", None), [partition.entry], NOTHING_NEW
        )
        since.append(partition_of(made).progress_at)

    assert since == [5.0, 100.0, 100.0]


@pytest.mark.parametrize(("leader", "begun"), [("one", [0, 1]), (None, [1])])
async def test_a_partition_that_begins_with_a_loss_waits_for_the_ledger_and_its_neighbour_does_not(
    leader: str | None, begun: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = CatalogLoss(
        cause=FaultReason.SOURCE_RECREATED, first=SourceOffset(0), end=SourceOffset(9)
    )
    entries = [entry(0, loss=loss), entry(1)]
    made = slot()
    made.forget_all()

    async def nothing(*_: object) -> list[object]:
        return []

    monkeypatch.setattr(ledger, "control_entries", lambda *_: [])
    monkeypatch.setattr(succession, "told", nothing)
    ids = {"orders": SOURCE_TOPIC, "east.orders": identity().target_topic_id}
    source = SimpleNamespace(topic_id=ids.get, of=lambda *_: "one", denied=lambda _: False)
    target = SimpleNamespace(topic_id=ids.get, of=lambda *_: leader, has_few=lambda *_: False)
    runner = SimpleNamespace(
        slot=made,
        clock=SimpleNamespace(monotonic=lambda: 100.0, now_ms=lambda: 5),
        unstarted={},
        sources=source,
        targets=target,
        fleet="west",
        doubts=NO_DOUBTS,
        report_fault=lambda _: None,
        wedges=SimpleNamespace(left_behind=frozenset()),
    )
    starts = Starts({each.identity: SourceOffset(0) for each in entries}, {})
    sender = SimpleNamespace(commit_control=nothing)

    await admit(cast("SlotRunner", runner), cast("Sender", sender), entries, starts)

    starting_now = [healing.may_start(cast("SlotRunner", runner), one) for one in runner.unstarted]
    assert not any(starting_now)  # nor is it looked at again and again
    assert [each.partition for each in made.partitions] == begun
    assert [each.partition for each in runner.unstarted] == [n for n in (0, 1) if n not in begun]


class Topics:
    """Topics by name; they are known once somebody has asked for them."""

    def __init__(self, topics: dict[str, TopicId]) -> None:
        self._topics = topics
        self._known: dict[str, TopicId] = {}

    def topic_id(self, topic: str) -> TopicId | None:
        return self._known.get(topic)

    async def renewed(self) -> None:
        self._known = self._topics


async def copied_on(
    *entries: CatalogPartition, source: TopicId, copies: dict[str, TopicId]
) -> list[tuple[CatalogPartition, int]]:
    """Which of these are admitted, and where they stand, each by a catalog that has it alone.

    All have been copied before, each incarnation 500 offsets; which topics there are is not known.
    """
    found = []
    for each in entries:
        made = slot(*entries)
        known = {
            one.identity: replace(
                one.committed, next_source=SourceOffset(500 * one.identity.incarnation)
            )
            for one in made.partitions.values()
        }
        made.forget_all()
        made.known = known
        runner = SimpleNamespace(
            slot=made,
            clock=SimpleNamespace(monotonic=lambda: 100.0, now_ms=lambda: 5),
            unstarted={},
            doubts=NO_DOUBTS,
            sources=Topics({"orders": source}),
            targets=Topics(copies),
        )
        await admit(cast("SlotRunner", runner), cast("Sender", None), [each], NOTHING_NEW)
        admitted = made.partitions.values()
        found += [(one.entry, int(one.committed.next_source)) for one in admitted]
    return found


@pytest.mark.parametrize("same", ["source", "target", "both"])
async def test_an_incarnation_that_another_one_has_followed_is_not_copied_again(same: str) -> None:
    old = entry()
    now = replace(old.identity, incarnation=1)
    if same == "source":
        now = replace(now, target_topic_id=OTHER)
    elif same == "target":
        now = replace(now, source_topic_id=OTHER)
    new = entry(identity=now)
    copies = {"east.orders": now.target_topic_id}

    assert await copied_on(old, new, source=now.source_topic_id, copies=copies) == [(new, 500)]


async def test_a_copy_under_another_name_goes_on_whichever_incarnation_that_name_had() -> None:
    first, anew = entry(), entry(identity=replace(identity(), incarnation=1))
    named = entry(target_topic="copied", identity=replace(identity(), target_topic_id=OTHER))
    copies = {"east.orders": identity().target_topic_id, "copied": OTHER}

    went_on = await copied_on(first, anew, named, source=SOURCE_TOPIC, copies=copies)

    assert went_on == [(anew, 500), (named, 0)]


@pytest.mark.parametrize(("is_lost", "rests_s"), [(True, 10.0), (False, 86_400.0)])
def test_a_lost_position_has_an_owner_commit_more_often_and_its_slot_taken_again_rarely(
    *, is_lost: bool, rests_s: float
) -> None:
    """The whole slot stands still for each: who puts positions back takes the owner's id anyway."""
    waiting = partition_of(slot())
    waiting.fault = Fault(FaultReason.POSITION_LOST, SourceOffset(-1), "") if is_lost else None
    now = [0.0]
    runner = SimpleNamespace(
        unstarted={waiting.identity: waiting},
        settings=SlotSettings(),
        control_partition=lambda kind: TopicPartition("positions", 0),
        targets=SimpleNamespace(topic_id=lambda topic: None),
        clock=SimpleNamespace(monotonic=lambda: now[0]),
        taken_at=0.0,
    )
    asked = cast("SlotRunner", runner)

    assert taking.rest_s(asked) == rests_s
    for now[0] in (1.0, 10.1, 600.0):
        taking.check_positions(asked)
    now[0] = 600.1
    with pytest.raises(taking.PositionsGoneError) if is_lost else nullcontext():
        taking.check_positions(asked)


async def test_a_start_that_this_build_cannot_read_stops_that_partition_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[TopicPartition, OffsetSpec] = {}

    async def listed(
        _: object, specs: dict[TopicPartition, OffsetSpec], **__: object
    ) -> dict[TopicPartition, ListedOffset]:
        asked.update(specs)
        return {at: ListedOffset(offset=4, timestamp=0, leader_epoch=0) for at in specs}

    monkeypatch.setattr(starting, "list_offsets", listed)
    unreadable = ["sometime", "timestamp:soon", "offset:", "latest:3"]
    strange = [entry(number, start=start) for number, start in enumerate(unreadable)]
    readable = [entry(4, start="timestamp:" + "9" * 30), entry(5, start="offset:" + "9" * 30)]
    runner = cast("SlotRunner", SimpleNamespace(source=None))

    starts = await resolve_starts(runner, [*strange, *readable])

    assert set(starts.refused) == {each.identity for each in strange}
    assert "'sometime', is not known to this build" in str(starts.refused[identity(0)])
    assert starts.found == {identity(4): 4, identity(5): 2**63 - 1}
    assert list(asked.values()) == [OffsetSpec(2**63 - 1)]


@pytest.mark.parametrize(
    ("state", "age_s", "is_used"),
    [
        (SlotState.WAITING, 1.0, True),
        pytest.param(SlotState.WAITING, 31.0, False, id="all since then would be read"),
        pytest.param(SlotState.COPYING, 1.0, False, id="taken before that was done"),
    ],
)
async def test_what_was_prepared_is_used_for_the_hand_over_that_it_was_made_for(
    state: SlotState, age_s: float, monkeypatch: pytest.MonkeyPatch, *, is_used: bool
) -> None:
    closed: list[bool] = []

    async def connect(_: float) -> None:
        pass

    async def bounds(*_: object) -> tuple[int, int]:
        return 3, 9

    made = SimpleNamespace(connect=connect, close=lambda: closed.append(True))
    monkeypatch.setattr(endings, "transactions_of", lambda *_: made)
    monkeypatch.setattr(taking, "log_bounds", bounds)
    now = [100.0]
    runner = SimpleNamespace(
        prepared=None,
        state=state,
        target=None,
        wedges=SimpleNamespace(main_id="main"),
        control_partition=lambda _: None,
        clock=SimpleNamespace(monotonic=lambda: now[0]),
    )
    await taking.prepare(cast("SlotRunner", runner))
    now[0] += age_s

    found = taking._prepared(cast("SlotRunner", runner))

    assert (found is not None and found[1] == (3, 9)) == is_used
    assert closed == ([] if is_used else [True])
    assert runner.prepared is None


@pytest.mark.parametrize(("copied", "looks"), [([0, 1], 0), ([0], 1), ([], 1)])
async def test_a_slot_is_taken_without_a_word_of_the_source_and_what_is_new_is_looked_at_then(
    monkeypatch: pytest.MonkeyPatch, copied: list[int], looks: int
) -> None:
    """A partition that was made a moment ago may have no leader for long."""
    made = slot(entry(0), entry(1))
    positions = {one.identity: one.committed for one in made.partitions.values()}
    made.forget_all()
    made.known = {identity(number): positions[identity(number)] for number in copied}
    asked: list[str] = []
    sides = SimpleNamespace(topic_id=lambda topic: None)
    runner = SimpleNamespace(
        slot=made,
        entries={one.identity: one for one in (entry(0), entry(1))},
        clock=SimpleNamespace(monotonic=lambda: 100.0, now_ms=lambda: 5),
        unstarted={},
        sources=sides,
        targets=SimpleNamespace(**vars(sides), lacks=lambda *_: True),
        doubts=NO_DOUBTS,
        wedges=SimpleNamespace(left_behind=frozenset()),
        source=None,
        look_at_entries=lambda: asked.append("look"),
    )
    monkeypatch.setattr(succession, "recall_ends", AsyncMock())

    await taking.admit_known(cast("SlotRunner", runner), cast("Sender", None))

    assert [one.partition for one in made.partitions] == copied
    assert (len(asked), runner.unstarted) == (looks, {})


class Barred:
    """A slot's positions: written by one, read by another who waits for what is written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.trouble: MirrorfleetError | None = None
        self._reads, self._written = asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(taking, "recall", self._recall)
        self.runner = SimpleNamespace(
            target=None,
            control_partition=lambda _: TopicPartition("positions", 3),
            clock=SimpleNamespace(monotonic=lambda: 100.0, now_ms=lambda: 5),
            move=self.steps.append,
            targets=SimpleNamespace(topic_id=lambda _: OTHER),
        )

    async def _recall(self, _: object, at: TopicPartition, until: Entry, hint: object) -> Recall:
        assert (at, until, hint) == (TopicPartition("positions", 3), BARRIER, (1, 2))
        self._reads.set()
        try:
            await self._written.wait()
        except asyncio.CancelledError:
            self.steps.append("reading ends")
            raise
        self.steps.append("read")
        return Recall(None)

    async def commit_control(self, entries: list[ControlEntry]) -> None:
        assert [each.at for each in entries] == [TopicPartition("positions", 3)]
        await self._reads.wait()  # else it would wait for ever
        if self.trouble is not None:
            raise self.trouble
        self.steps.append("committed")

    async def beside(self) -> None:
        self.steps.append("beside")

    async def done(self) -> Recall:
        runner, sender = cast("SlotRunner", self.runner), cast("Sender", self)
        found = await taking.commit_and_recall(runner, sender, [BARRIER], self.beside, (1, 2))
        assert (self.runner.positions_id, self.runner.taken_at) == (OTHER, 100.0)
        return found


async def test_positions_are_read_up_to_a_barrier_while_it_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    barred = Barred(monkeypatch)

    def move(state: SlotState) -> None:
        barred.steps.append(state)
        barred._written.set()

    barred.runner.move = move
    async with asyncio.timeout(5):
        await barred.done()

    assert barred.steps == ["committed", "beside", SlotState.READING, "read"]


@pytest.mark.parametrize("is_beside", [False, True])
async def test_nobody_waits_for_a_barrier_that_is_not_committed_or_not_to_be_read_up_to(
    monkeypatch: pytest.MonkeyPatch, *, is_beside: bool
) -> None:
    barred, trouble = Barred(monkeypatch), DeadlineError("gone")

    async def fail() -> None:
        raise trouble

    if is_beside:
        monkeypatch.setattr(barred, "beside", fail)
    else:
        barred.trouble = trouble
    async with asyncio.timeout(5):
        with pytest.raises(DeadlineError):
            await barred.done()

    assert barred.steps == ["committed" if is_beside else "beside", "reading ends"]
