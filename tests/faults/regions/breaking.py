"""Faults of brokers and of the network, each with its proof and its healing: drills and the soak.

Every function here leaves the world as it was, whatever happens, and notes in the fault that it is
given whether it bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.kafka.coordinator import CoordinatorKind
from tests.faultkit.bites import (
    aborted_in,
    aborted_within,
    begin_in_transaction,
    repeated,
    was_slowed,
)
from tests.faultkit.far import round_trip_s
from tests.faultkit.hold import hold_sync
from tests.faultkit.process import is_frozen
from tests.faultkit.proxy import BLACK_HOLE, Side, held
from tests.faultkit.regions import access, data_directories
from tests.faultkit.waiting import wait_until
from tests.faults.regions.drill import STEADY_S, now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from services.local.broker import Broker
    from tests.faultkit.proxy import Gate, Line
    from tests.faults.regions.drill import Drill, Fault

INTERNAL: Final = {
    "east": ("__transaction_state",),
    "west": ("__transaction_state", "__consumer_offsets"),
}
"""Kafka's own topics: transactions of the load and of the fleet, groups of the fleet alone."""
ELECTED_S: Final = 100.0
"""Deadline to hear that a part is another broker's. The session of a broker is 9 s; but who asks
for the controller is sent on to the one that the broker knew, and a frozen one is given 30 s."""
CUT: Final = {"up": BLACK_HOLE, "down": BLACK_HOLE}
"""Both ways."""
COPIES: Final = 3
"""Of each partition, where there are as many brokers."""
START_S: Final = 180.0
"""Deadline for brokers to be back, however busy the machine."""
BITE_S: Final = 20.0
"""Deadline for a fault of the network to show."""
MET_S: Final = 60.0
"""Deadline for it to come in the middle of a transaction."""
FREEZES: Final = 3
"""Of one broker, at most, to meet a transaction of the fleet: mostly the first one does."""
LOOKS: Final = 30
"""At how quick an answer is without a fault, at most."""


def parts(it: Drill, side: str) -> dict[str, Callable[[], int]]:
    """Who plays which part on a side: for the fleet, and for a load in transactions.

    The fleet has no group at the source that copying needs.
    """
    roles, workers = it.roles(side), f"mirrorfleet.{it.name}.mirror"
    writers = {"east": f"load-{it.name}-0-txn-lz4", "west": f"mirrorfleet.{it.name}.east.0"}
    found: dict[str, Callable[[], int]] = {
        "leader": lambda: roles.leader(it.copied(side)[0], 0),
        "controller": roles.controller,
        "coordinator": lambda: roles.coordinator_of(writers[side]),
    }
    if side == "west":
        found["group coordinator"] = lambda: roles.coordinator_of(workers, CoordinatorKind.GROUP)
    return found


def in_sync(it: Drill, side: str) -> None:
    """Wait until every partition that matters has all its replicas."""
    copies = min(COPIES, len(it.pair[side].region.brokers))
    it.roles(side).wait_in_sync([*it.copied(side), *INTERNAL[side]], copies)


def started(brokers: Sequence[Broker]) -> None:
    """Start brokers on their data, side by side; all serve requests when this returns."""
    for broker in brokers:
        broker.start()
    for broker in brokers:
        broker.wait_ready(START_S)


def _heir(who: Callable[[], int], part: str, node: int) -> int:
    """Who plays the part of a broker that is away; asking may end at that very broker."""
    return wait_until(
        lambda: found if (found := who()) not in {node, -1} else 0,
        deadline_s=ELECTED_S,
        what=f"another {part} than broker {node}",
        ignoring=(MirrorfleetError, TimeoutError),
    )


def _passed_on(it: Drill, side: str, part: str, node: int, *, away: bool) -> tuple[bool, str]:
    """Whether another broker plays the part now, in words too; the only one leaves it to nobody,
    for as long as it was `away`.
    """
    if len(it.pair[side].region.brokers) == 1:
        return away, f"nobody was {part} meanwhile"
    heir = _heir(parts(it, side)[part], part, node)
    return bool(heir), f"broker {heir} is {part} now"


def killed(it: Drill, side: str, part: str, away_s: float) -> None:
    """Kill -9 who plays a part, see the part go to another one, start it again."""
    node = parts(it, side)[part]()
    broker = it.pair[side].region.broker(node)
    with it.fault(f"{side} {part} (broker {node}) killed") as fault:
        broker.kill()
        try:
            fault.bit(*_passed_on(it, side, part, node, away=broker.pid is None))
            hold_sync(away_s, reason="a broker is away")
        finally:
            started([broker])
    in_sync(it, side)


def restarted(it: Drill, side: str, brokers: Sequence[Broker]) -> None:
    """Stop brokers in an orderly way, one after the other, and start each again."""
    with it.fault(f"{side} restarted, {len(brokers)} brokers") as fault:
        before = [broker.pid for broker in brokers]
        for broker in brokers:
            try:
                broker.stop()
            finally:
                started([broker])
            in_sync(it, side)
        now = [broker.pid for broker in brokers]
        fault.bit(not set(before) & set(now), f"processes {before} -> {now}")


def frozen(it: Drill, side: str, part: str, seconds: float) -> None:
    """SIGSTOP who plays a part: its connections stay, nothing answers.

    At the target once more where nothing of the fleet was aborted: with every slot at its commit,
    whose markers wait for the frozen leader, nothing is open that would have to be.
    """
    must_abort = side == "west" and it.is_lasting
    fault = repeated(
        lambda: _frozen(it, side, part, seconds),
        lambda fault: not must_abort or _has_aborted(it, fault),
        times=FREEZES,
        awake_s=STEADY_S,
    )
    fault.aborts = side == "west"


def _has_aborted(it: Drill, fault: Fault) -> bool:
    aborted = aborted_in(data_directories(it.west), it.copies())
    return aborted_within(fault.name, fault.began_ms, now_ms(), aborted).bit


def _frozen(it: Drill, side: str, part: str, seconds: float) -> Fault:
    node = parts(it, side)[part]()
    broker = it.pair[side].region.broker(node)
    with it.fault(f"{side} {part} (broker {node}) frozen for {seconds:.0f} s") as fault:
        broker.pause()
        try:
            hold_sync(seconds, reason="a broker is frozen")
            away = broker.pid is not None and is_frozen(broker.pid)
        finally:
            broker.resume()
        # not before: a question about the quorum is sent on to the frozen controller, by brokers
        # that know no other, and would hold the fault until it is answered
        fault.bit(*_passed_on(it, side, part, node, away=away))
    in_sync(it, side)
    return fault


def moved(it: Drill, side: str) -> None:
    """Give all leaderships and coordinatorships to other brokers."""
    with it.fault(f"{side} leaders and coordinators moved") as fault:
        roles, topic, who = it.roles(side), it.copied(side)[0], parts(it, side)["coordinator"]
        node = who()
        before = {number: meta.leader for number, meta in roles.partitions(topic).items()}
        roles.move_leaders([topic, *INTERNAL[side]])

        def look() -> bool:
            now = {number: meta.leader for number, meta in roles.partitions(topic).items()}
            return all(now.get(n) not in {None, -1, leader} for n, leader in before.items())

        wait_until(look, deadline_s=ELECTED_S, what=f"{len(before)} moved leaders")
        heir = _heir(who, "coordinator", node)
        leaders = f"{len(before)} leaders moved"
        fault.bit(before and heir, f"{leaders}, the coordinator from broker {node} to {heir}")


def hole(it: Drill, name: str, gates: Sequence[Gate], seconds: float, **lines: Line | None) -> None:
    """Hold a black hole (`up`, `down` as `Gate.set`); it bit when bytes wait in it.

    At the target it begins when a transaction stays open by it: a commit of which only the answer
    is lost is made all the same, and with every slot at its commit, as at 2 of 11 moments seen,
    nothing is open that would have to be aborted.
    """
    aborts = any(gate in it.pair["west"].gates.values() for gate in gates)
    with it.fault(name, aborts=aborts) as fault, held(gates):

        def begin() -> None:
            fault.began_ms = now_ms()
            for gate in gates:
                gate.set(**lines)

        def heal() -> None:
            for gate in gates:
                gate.heal()

        if aborts and it.is_lasting:
            what = f"{name}: an open transaction of the fleet"
            begin_in_transaction(
                begin, heal, access(it.west), it.copies(), deadline_s=MET_S, what=what
            )
        else:
            begin()
        waiting = wait_until(
            lambda: sum(gate.seen().waiting for gate in gates),
            deadline_s=BITE_S,
            what="bytes to wait in a black hole",
        )
        hold_sync(seconds, reason="a black hole")
        waiting = max(waiting, sum(gate.seen().waiting for gate in gates))
        fault.bit(waiting, f"{waiting} bytes waited")


def reset(it: Drill, side: str, gates: Sequence[Gate], seconds: float) -> None:
    """Reset all connections twice a second."""
    with it.fault(f"{side} resets twice a second") as fault:
        count = 0
        for _ in range(int(2 * seconds)):
            count += sum(gate.reset() for gate in gates)
            hold_sync(0.5, reason="between two resets")
        fault.bit(count, f"{count} connections reset")


def half_open(it: Drill, side: str, gates: Sequence[Gate], stays: Side, seconds: float) -> None:
    """Let one side of every connection die unnoticed."""
    aborts = side == "west" and stays is Side.CLIENT  # else it is told, and may send again
    with it.fault(f"{side} half-open, the {stays} does not notice", aborts=aborts) as fault:
        count = sum(gate.half_open(stays) for gate in gates)
        hold_sync(seconds, reason="nobody tells the one side")
        fault.bit(count, f"{count} connections half-open")


def slow(it: Drill, side: str, gates: Sequence[Gate], line: Line, seconds: float) -> None:
    """Make both ways slow, or cut in slices.

    On a busy machine an answer may take as long before it; that it need not is seen after it.
    """
    far = it.pair[side]
    without_s = round_trip_s(far, gates[0])
    with it.fault(f"{side} slow, {line.slice_bytes} bytes a slice") as fault:
        with held(gates, up=line, down=line):
            during_s = round_trip_s(far, gates[0])
            hold_sync(seconds, reason="a slow network")
        for _ in range(LOOKS):
            if without_s < 2 * line.delay_s:
                break
            without_s = min(without_s, round_trip_s(far, gates[0]))
        fault.bit(*was_slowed(without_s, during_s, line.delay_s))
