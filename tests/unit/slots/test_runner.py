"""The loop of a slot: how it ends, and what follows trouble."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from mirrorfleet.copying.budget import MemoryBudget
from mirrorfleet.copying.lifecycle import SlotState
from mirrorfleet.copying.schedule import Setbacks
from mirrorfleet.copying.transaction import Transaction
from mirrorfleet.core.ids import FleetName, PartitionIdentity, SlotNumber, TopicPartition
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.records.formats import FIRST_LEVEL, LEVELS
from mirrorfleet.runtime.clock import SystemClock
from mirrorfleet.runtime.lifecycle import Stop
from mirrorfleet.slots import aborting, diverting, entries, ledger, taking
from mirrorfleet.slots import runner as running
from mirrorfleet.slots.outgoing import AbortError, ControlEntry, RetakeError
from mirrorfleet.slots.runner import SlotRunner
from mirrorfleet.slots.settings import SlotSettings
from mirrorfleet.slots.worker import SourceSide, Worker
from mirrorfleet.wire.records import control_batch
from tests.unit.copying.making import BIG, LINK, fetched, give, identity, slot
from tests.unit.slots.stubs import POSITIONS, PRODUCER, NoSpare, Target, sender_of

if TYPE_CHECKING:
    from mirrorfleet.copying.partition import CopyPartition
    from mirrorfleet.core.ports import Dice
    from mirrorfleet.kafka.cluster import Cluster
    from mirrorfleet.slots.leaders import Leaders
    from mirrorfleet.slots.meters import LinkMeters
    from mirrorfleet.slots.sending import Sender
    from mirrorfleet.slots.worker import StoredMap

DEADLINE_S = 5.0


class Slot:
    """A slot whose transactions are all aborted, and that is asked to stop."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.aborted = 0
        self.stopping = False
        self.clock = SystemClock()
        self.dice = SimpleNamespace(uniform=lambda low, high: low)
        self.setbacks = Setbacks()
        self.doubts = SimpleNamespace(settle=self._settle)

    async def _settle(self, sender: object) -> bool:
        del sender
        await asyncio.sleep(0)
        return not self.stopping

    async def _admit_new(self, sender: object) -> None:
        assert sender is self

    def check_epoch(self) -> None:
        pass

    async def transact(self) -> bool:
        self.stopping = True
        self.stop.set()
        raise AbortError("an earlier transaction may be open in the slot's positions")

    async def undo(self, sender: object, error: AbortError) -> None:
        del sender, error
        self.aborted += 1


@pytest.fixture
def told_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub of a slot hears of its aborts itself."""

    async def aborted(slot: Slot, sender: object, error: AbortError) -> None:
        await slot.undo(sender, error)

    monkeypatch.setattr(running, "aborted", aborted)


@pytest.mark.usefixtures("told_slot")
async def test_a_slot_that_stops_leaves_what_it_had_to_take_back_to_the_next_owner() -> None:
    """Tried again it would be aborted for as long as its positions have no leader."""
    slot = Slot(Stop(SystemClock(), DEADLINE_S))

    async with asyncio.timeout(DEADLINE_S):
        await SlotRunner._copy(cast("SlotRunner", slot), cast("Sender", slot), slot.stop)

    assert slot.aborted == 1


async def test_a_slot_that_comes_back_forgets_what_others_may_have_copied_since() -> None:
    made, moves = slot(), list[str]()
    runner = SimpleNamespace(
        slot=made,
        state=SlotState.LOST,
        is_lost=False,
        wedges=SimpleNamespace(forget=lambda: None),
        doubts=SimpleNamespace(begin=lambda: moves.append("leaders")),
        spare=NoSpare(),
        ended=asyncio.Event(),
        _stop=lambda: None,
        move=moves.append,
    )
    stop = Stop(SystemClock(), DEADLINE_S)
    stop.set()

    await SlotRunner.run(cast("SlotRunner", runner), stop)

    assert (made.partitions, made.left) == ({}, {})
    assert moves == ["leaders", SlotState.WAITING, SlotState.RELEASED]


async def test_a_slot_that_is_handed_over_ends_what_an_abort_left_open_before_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    async def settle(sender: object) -> bool:
        done.append("settled")
        return True

    async def commit_control(written: object) -> None:
        done.append("released")

    monkeypatch.setattr(entries, "release_entry", lambda *_: "released")
    giving = SimpleNamespace(left_in=object(), doubts=SimpleNamespace(settle=settle))
    sender = SimpleNamespace(commit_control=commit_control, check_epoch=lambda: None)

    await SlotRunner._release(cast("SlotRunner", giving), cast("Sender", sender))

    assert done == ["settled", "released"]


async def nothing(*_: object) -> None:
    pass


async def test_after_a_keep_alive_that_v1_sent_twice_the_slot_is_taken_before_all_else() -> None:
    """A late copy of its end would commit a part of the next transaction, without positions."""
    target = Target()
    settled: list[int] = []
    sender, seen = sender_of(target, version=TransactionVersion.V1)

    async def settle(_: object) -> bool:
        settled.append(len(target.seen))
        return True

    async def keep_alive(_: object) -> None:
        await sender.commit_control([ControlEntry(POSITIONS, control_batch([(b"k", b"v")], 5))])
        seen.coordinator.resent = True
        give(seen.slot, seen.slot.partitions[identity()], fetched((0, [BIG])), end=1)

    copying = SimpleNamespace(
        number=0,
        stopping=False,
        slot=seen.slot,
        clock=SystemClock(),
        doubts=SimpleNamespace(settle=settle),
        markers=SimpleNamespace(idle=lambda number: None),
        settings=SimpleNamespace(keep_alive_s=-1.0),
        unstarted={},
        mender=SimpleNamespace(work=nothing),
        wedges=SimpleNamespace(end_if_healed=lambda: None),
        keep_alive=keep_alive,
        woken=nothing,
        _admit_new=nothing,
    )

    with pytest.raises(RetakeError):
        await SlotRunner._copy(cast("SlotRunner", copying), sender, cast("Stop", None))

    assert settled == [0]  # it may begin a transaction too
    assert target.seen == ["add positions-0", "produce positions-0", "ack positions-0", "commit"]


@pytest.mark.parametrize("is_due", [False, True])
async def test_a_keep_alive_writes_all_positions_only_where_those_in_the_log_may_be_gone(
    *, is_due: bool
) -> None:
    written: list[ControlEntry] = []

    async def commit_control(found: list[ControlEntry]) -> None:
        written.extend(found)

    made = slot()
    made.known = {each.identity: each.committed for each in made.partitions.values()}
    made.snapshots.stated({}, (), 1)
    made.snapshots.committed()
    if is_due:
        made.snapshots.lost()
    runner = SimpleNamespace(
        slot=made,
        owner="me",
        clock=SystemClock(),
        formats=LEVELS[FIRST_LEVEL],
        control_partition=lambda kind: POSITIONS,
    )
    asked = cast("SlotRunner", runner)
    runner.control_entries = lambda *args: ledger.control_entries(asked, *args)
    sender = SimpleNamespace(producer=PRODUCER, commit_control=commit_control)

    await SlotRunner.keep_alive(asked, cast("Sender", sender))

    assert [entry.at for entry in written] == [POSITIONS]  # one batch: a request takes no more
    assert (written[0].batch.count > 1) == is_due


class Refused(Slot):
    """One whose transactions come through, and of which one step between them is refused once."""

    def __init__(self, refused: str) -> None:
        super().__init__(Pauses(9))
        self.done: list[str] = []
        self.number, self.committed_at = SlotNumber(0), 0.0
        self.slot = SimpleNamespace(ready=True)
        self.settings = SimpleNamespace(keep_alive_s=-1.0)
        self.unstarted: dict[PartitionIdentity, CopyPartition] = {}
        self.wedges = SimpleNamespace(end_if_healed=lambda: None)
        self.mender = SimpleNamespace(work=self._work)
        self._refused = refused

    def _do(self, step: str) -> None:
        self.done.append(step)
        if step == self._refused and self.done.count(step) == 1:
            raise AbortError(f"{step} has no leader")

    async def transact(self) -> bool:
        self.stopping = self.done.count("copied") > 1
        self._do("copied")
        return True

    async def _admit_new(self, sender: object) -> None:
        assert sender is self
        if self._refused == "admission" and self.done == ["copied", "keep-alive", "ledger"]:
            self._do("admission")

    async def keep_alive(self, sender: object) -> None:
        assert sender is self
        self._do("keep-alive")

    async def _work(self, sender: object) -> None:
        assert sender is self
        self._do("ledger")

    async def undo(self, sender: object, error: AbortError) -> None:
        assert sender is self
        self.done.append(f"aborted: {error}")


@pytest.mark.usefixtures("told_slot")
@pytest.mark.parametrize(
    ("refused", "before"),
    [
        ("keep-alive", ["keep-alive"]),
        ("ledger", ["keep-alive", "ledger"]),
        ("admission", ["keep-alive", "ledger", "admission"]),
    ],
)
async def test_what_is_refused_between_two_transactions_is_aborted_and_the_slot_goes_on(
    refused: str, before: list[str]
) -> None:
    slot = Refused(refused)

    await SlotRunner._copy(cast("SlotRunner", slot), cast("Sender", slot), slot.stop)

    aborted = f"aborted: {refused} has no leader"
    after = ["copied", "keep-alive", "ledger", "copied"]
    assert slot.done == ["copied", *before, aborted, *after]


class Pauses(Stop):
    """Notes how long the loop of a slot pauses, and ends it after so many pauses."""

    def __init__(self, most: int) -> None:
        super().__init__(SystemClock(), DEADLINE_S)
        self._most = most
        self.waits: list[float] = []

    async def wait_at_most(self, seconds: float) -> bool:
        self.waits.append(seconds)
        if len(self.waits) == self._most:
            self.set()
        await asyncio.sleep(0)
        return self.is_set()


class Member:
    """A worker with one slot; what the coordinator of its group says, when it is asked."""

    def __init__(self, *words: bool, version: TransactionVersion = TransactionVersion.V2) -> None:
        self.words = list(words)
        self.takes = 0
        leaders = SimpleNamespace(on_change=lambda listener: None, ask=lambda: None)
        worker = Worker(
            owner="me",
            fleet=FleetName("west"),
            settings=SlotSettings(),
            clock=SystemClock(),
            dice=cast("Dice", SimpleNamespace(uniform=lambda low, high: high)),
            target=cast("Cluster", None),
            targets=cast("Leaders", leaders),
            version=version,
            principal="User:me",
            budget=MemoryBudget(1 << 20),
            confirm=self.confirm,
            stored_map=cast("StoredMap", None),
        )
        meters = SimpleNamespace(
            aborted=lambda action, number: nullcontext(),
            committed=lambda transaction, took, now_ms: None,
        )
        side = SourceSide(
            link=LINK,
            cluster=cast("Cluster", None),
            leaders=cast("Leaders", leaders),
            meters=cast("LinkMeters", meters),
            principal="User:me",
            keeper=cast("asyncio.Task[None]", None),
        )
        self.runner = SlotRunner(worker, side, SlotNumber(0))

    async def confirm(self) -> bool:
        return self.words.pop(0) if self.words else True

    async def take(self, runner: SlotRunner) -> Sender:
        self.takes += 1
        runner.move(SlotState.FENCING)
        raise RetakeError("the coordinator moved")

    async def aborted(self, stop: Stop) -> None:
        """A hold of the slot whose first transaction comes to nothing."""
        del stop
        for state in (SlotState.FENCING, SlotState.READING, SlotState.COPYING):
            self.runner.move(state)
        full = AbortError("the disk of a leader is full")
        await aborting.aborted(self.runner, cast("Sender", None), full)


@pytest.mark.parametrize(("is_member", "takes"), [(True, 2), (False, 1)])
async def test_after_trouble_a_slot_is_taken_again_only_if_we_are_a_member_still(
    monkeypatch: pytest.MonkeyPatch, *, is_member: bool, takes: int
) -> None:
    member, stop = Member(True, is_member), Pauses(2)
    monkeypatch.setattr(taking, "take", member.take)

    await member.runner.run(stop)

    assert (member.takes, member.words) == (takes, [])
    assert ("does not say that we are a member" in member.runner.trouble) is not is_member


async def test_nothing_is_waited_for_once_it_is_known_what_is_in_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member, stop = Member(), Pauses(2)
    left = TopicPartition("east.orders", 0)

    async def wedged(_: object) -> Sender:
        member.runner.move(SlotState.FENCING)
        member.runner.wedges.leave([left])

    monkeypatch.setattr(taking, "take", wedged)
    monkeypatch.setattr(diverting, "divert", member.take)

    await member.runner.run(stop)

    assert (stop.waits, member.takes) == ([0.0, 0.1], 1)
    assert member.runner.wedges.left_behind == set()  # the slot is not ours any more


async def test_aborts_of_v1_in_a_row_wait_longer_and_send_less_until_data_is_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    member, stop = Member(version=TransactionVersion.V1), Pauses(8)
    monkeypatch.setattr(member.runner, "_hold", member.aborted)

    await member.runner.run(stop)
    assert stop.waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert member.runner.depth.limit == 1

    member.runner.committed(Transaction(0.0), [], 0.1)
    again = Pauses(1)
    await member.runner.run(again)
    assert again.waits == [0.1]
    assert member.runner.depth.limit == 1  # 2, and half of it
