"""Faults with proof that they bit, as evidence for the judge.

A worker that is killed between two transactions tests nothing. `kill_in_transaction` kills it when
the target shows an open transaction, and `abort_evidence` finds the marker that ended it later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tests.faultkit.hold import hold_sync
from tests.faultkit.markers import MarkerType, aborts, ending
from tests.faultkit.waiting import wait_until
from tests.judge.reading import ReadingError, ends_of
from tests.judge.verdict import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from confluent_kafka.admin import AdminClient

    from tests.faultkit.process import RunningProcess
    from tests.judge.reading import At, ClusterAccess

T = TypeVar("T")

ALREADY_ENDING_S = 0.5
"""A commit that was on its way to a broker of this machine is done after that."""

AWAKE_S = 1.0
"""Between two tries: it copies again, or many short sleeps are one long stall without a fault."""

LATEST = 0.75
"""Of the records: a kill after so many is not in the middle."""

NOT_DRAINED = "not drained within"
"""What a service logs that was asked to stop and whose time for it was over."""


class OpenAt(NamedTuple):
    """A partition whose transaction was open at offset `since` when its producer was killed."""

    partition: At
    since: int


def open_transactions(
    access: ClusterAccess, partitions: Sequence[At], admin: AdminClient | None = None
) -> list[OpenAt]:
    """Name the partitions that hold back read_committed consumers: last stable < high watermark."""
    return [
        OpenAt(at, ends.committed)
        for at, ends in ends_of(access, partitions, admin).items()
        if ends.committed < ends.uncommitted
    ]


def begin_in_transaction(
    begin: Callable[[], object],
    heal: Callable[[], object],
    access: ClusterAccess,
    partitions: Sequence[At],
    *,
    deadline_s: float,
    what: str,
    awake_s: float = AWAKE_S,
) -> list[OpenAt]:
    """Break something while a transaction is open in `partitions`; say in which.

    It stays broken only if the transaction is still open when everything on its way must have
    arrived; otherwise it is healed and the next moment is tried. Who asks is connected and has its
    answer before each: on a busy machine that takes seconds at first, and a member that sleeps for
    so long is put out of its group.
    """
    admin = access.admin()

    def try_once() -> list[OpenAt]:
        open_transactions(access, partitions, admin)
        begin()
        found: list[OpenAt] = []
        try:
            found = lasting(access, partitions, admin)
        finally:
            if not found:
                heal()
                hold_sync(awake_s, reason="it goes on before it is tried again")
        return found

    return wait_until(
        try_once,
        deadline_s=deadline_s,
        what=what,
        ignoring=(ReadingError,),  # the topics may still be to be created
    )


def freeze_in_transaction(
    process: RunningProcess,
    access: ClusterAccess,
    partitions: Sequence[At],
    *,
    deadline_s: float,
    awake_s: float = AWAKE_S,
) -> list[OpenAt]:
    """SIGSTOP a worker while it has a transaction open in `partitions`; say in which."""

    def freeze() -> None:
        process.check_alive()
        process.freeze()

    return begin_in_transaction(
        freeze,
        process.thaw,
        access,
        partitions,
        deadline_s=deadline_s,
        what=f"{process.name} to have a transaction open",
        awake_s=awake_s,
    )


def kill_in_transaction(
    process: RunningProcess,
    access: ClusterAccess,
    partitions: Sequence[At],
    *,
    deadline_s: float,
) -> list[OpenAt]:
    """Kill -9 a worker while it has a transaction open, as `freeze_in_transaction` finds one."""
    opened = freeze_in_transaction(process, access, partitions, deadline_s=deadline_s)
    process.kill()
    return opened


def repeated(
    break_once: Callable[[], T], has_met: Callable[[T], bool], *, times: int, awake_s: float
) -> T:
    """Break something until it met what it has to, so many times at most; the last one counts."""
    for _ in range(times - 1):
        if has_met(fault := break_once()):
            return fault
        hold_sync(awake_s, reason="it goes on before it is tried again")
    return break_once()


def lasting(
    access: ClusterAccess, partitions: Sequence[At], admin: AdminClient | None = None
) -> list[OpenAt]:
    """Name the partitions whose very transaction stays open: not ended by what is on its way.

    Those of another worker, which lives, end in that time and others begin.
    """
    before = open_transactions(access, partitions, admin)
    if not before:
        return []
    hold_sync(ALREADY_ENDING_S, reason="a commit may be on its way from the frozen worker")
    return [each for each in open_transactions(access, partitions, admin) if each in before]


def abort_evidence(
    fault: str, opened: Sequence[OpenAt], log_directories: Sequence[Path]
) -> Evidence:
    """Whether a transaction that was open at the kill ended with an abort marker on the target.

    That very one: it may have been committed all the same, and what a later kill aborts in its
    partition proves nothing of this one.
    """
    for at, since in opened:
        marker = ending(log_directories, at.topic, at.partition, since)
        if marker is not None and marker.type is MarkerType.ABORT:
            where = f"{at.topic}-{at.partition} @ {marker.offset}"
            return Evidence(fault, bit=True, detail=f"abort marker in {where}")
    return Evidence(fault, bit=False, detail=f"no abort marker ended {list(opened)[:3]}")


class Aborted(NamedTuple):
    """The end of a transaction that was aborted."""

    time_ms: int
    partition: At
    offset: int


def aborted_in(log_directories: Sequence[Path], partitions: Sequence[At]) -> list[Aborted]:
    """Every aborted transaction of these partitions, by the time of its marker."""
    return sorted(
        Aborted(marker.time_ms, at, marker.offset)
        for at in partitions
        for marker in aborts(log_directories, at.topic, at.partition)
    )


def aborted_within(
    fault: str, began_ms: int, until_ms: int, aborted: Sequence[Aborted]
) -> Evidence:
    """Whether a transaction was aborted from the beginning of a fault to that of the next one."""
    name = f"{fault}, in open transactions"
    for time_ms, at, offset in aborted:
        if began_ms <= time_ms < until_ms:
            after_s = (time_ms - began_ms) / 1000
            where = f"{at.topic}-{at.partition} @ {offset}, {after_s:.1f} s after"
            return Evidence(name, bit=True, detail=f"abort marker in {where}")
    return Evidence(name, bit=False, detail="no abort marker until the next one")


def must_have_met(
    found: Sequence[Evidence], sure: Sequence[bool], *, is_lasting: bool
) -> list[Evidence]:
    """What is demanded of faults, each with what `aborted_within` found and whether it is `sure`.

    Each sure one where transactions last. With one broker, which waits for no follower, they are
    over in milliseconds, and whether one is open at a given moment is chance: some fault of all.
    """
    if is_lasting:
        return [each for each, is_sure in zip(found, sure, strict=True) if is_sure]
    met = sum(each.bit for each in found)
    detail = f"{met} of {len(found)} faults"
    return [Evidence("some in open transactions", bit=met > 0, detail=detail)] if any(sure) else []


def middle(at_kill: int, records: int, *, is_written: bool = True) -> Evidence:
    """Whether a worker died with a part of the copy made, and a part not.

    Ends count the markers of transactions, too, and of a trickle they are many: while records are
    still written to the source the copy cannot be whole.
    """
    told = f"{at_kill} of {records} records at the kill"
    bit = at_kill > 0 and (not is_written or at_kill < records * LATEST)
    return Evidence("in the middle", bit=bit, detail=told)


def was_slowed(without_s: float, during_s: float, delay_s: float) -> tuple[bool, str]:
    """Whether the quickest of some answers waited for a delay both ways, as one without did not."""
    told = f"an answer takes {during_s * 1000:.0f} ms, {without_s * 1000:.0f} ms without it"
    return without_s < 2 * delay_s <= during_s, told


def was_throttled(before: float, during: float, most: float) -> tuple[bool, str]:
    """Whether bytes a second are no more than a quota allows, and were twice as many before."""
    told = f"{during / 1e6:.2f} MB/s, {before / 1e6:.2f} MB/s before, {most / 1e6:.2f} at most"
    return 0 < during < most and 2 * during <= before, told


def has_left(code: int, text: str) -> tuple[bool, str]:
    """Whether a worker ended as asked: it drained, or says that it had no time to finish."""
    late = code == 1 and NOT_DRAINED in text
    return code == 0 or late, f"exit {code}" + (", not drained in time" if late else "")
