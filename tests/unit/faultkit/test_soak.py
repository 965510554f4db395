"""The seed of a soak decides its faults and their order: what was seen once can be seen again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Protocol, cast

import pytest

from tests.faultkit.waiting import NotInTimeError
from tests.faults import soak
from tests.faults.regions import breaking
from tests.faults.regions.drill import SLOTS, Drill
from tests.faults.regions.trend import HOUR_S, Holding
from tests.faults.soak import LASTING, Soak
from tests.judge.verdict import Verdict

FAULTS = 200
BROKERS = ("killed", "frozen", "restarted", "moved", "hole", "reset", "half_open", "slow")


class Drawn(Protocol):
    """Draws the faults of a seed."""

    def __call__(self, seed: int, brokers: int = 3) -> list[str]: ...


class Worker:
    """One of two that share a fleet's slots: while it stands still the other one takes its own."""

    exit_code = -9

    def __init__(self, name: str, slots: dict[str, int]) -> None:
        self.name, self.slots, self.calls = name, slots, list[str]()

    def status(self) -> dict[str, object]:
        return {"slots": [{"state": "copying"}] * self.slots[self.name]}

    def freeze(self) -> None:
        self.calls.append("freeze")
        for name in self.slots:
            self.slots[name] = 0 if name == self.name else SLOTS

    def thaw(self) -> None:
        self.calls.append("thaw")
        for name in self.slots:
            self.slots[name] = SLOTS // 2

    def kill(self) -> None: ...

    def terminate(self) -> None: ...

    def wait_exit(self, deadline_s: float) -> int:
        return 0

    def text(self) -> str:
        return ""


class Stage:
    """A drill in which nothing breaks: it writes down what would have been broken."""

    def __init__(self, nodes: Sequence[int] = (1, 2, 3)) -> None:
        self.name = "soak"
        self.seen: list[str] = []
        self.slots = {"a": SLOTS // 2, "b": SLOTS // 2}
        self.proofs: list[tuple[bool, str]] = []
        side = SimpleNamespace(
            region=SimpleNamespace(brokers=[f"broker {n}" for n in nodes]),
            gates={n: f"gate {n}" for n in nodes},
        )
        self.pair = {"east": side, "west": side}

    def roles(self, side: str) -> Any:
        leads = sorted(self.pair[side].gates)[:2]
        return SimpleNamespace(
            controller=lambda: side, leader=lambda topic, number: leads[number % len(leads)]
        )

    def copied(self, side: str) -> list[str]:
        return [f"{side}-topic"]

    def mirror(self, name: str) -> Worker:
        return Worker(name, self.slots)

    @contextmanager
    def fault(self, name: str) -> Iterator[Any]:
        self.seen.append(name)
        yield SimpleNamespace(bit=lambda bit, told: self.proofs.append((bool(bit), told)))


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """The faults of a seed."""

    def note(name: str) -> Callable[..., None]:
        def noted(stage: Stage, *told: object, **more: object) -> None:
            stage.seen.append(f"{name} {told} {more}")

        return noted

    for name in BROKERS:
        monkeypatch.setattr(breaking, name, note(name))
    monkeypatch.setattr(soak, "hold_sync", lambda *_, **__: None)

    def drawn(seed: int, brokers: int = 3) -> list[str]:
        stage = Stage(range(1, brokers + 1))
        run = Soak(cast(Drill, stage), random.Random(seed))
        run.start("a")
        run.start("b")
        for _ in range(FAULTS):
            run.dice.choice(run.table)()
        return stage.seen

    return drawn


def test_a_seed_replays_its_faults_and_another_one_has_others(
    faults: Drawn,
) -> None:
    once, again, other = faults(7), faults(7), faults(8)
    assert once == again != other
    assert len(once) == FAULTS


def test_who_is_cut_off_alone_leads_a_partition_so_that_something_is_held_up(
    faults: Drawn,
) -> None:
    alone = [each for each in faults(7) if "1 brokers" in each]
    assert any("gate 1" in each for each in alone)
    assert any("gate 2" in each for each in alone)
    assert not any("gate 3" in each for each in alone), "it leads nothing"


def test_every_kind_of_fault_comes_up(faults: Drawn) -> None:
    seen = " ".join(faults(7))
    of_workers = ("worker b killed", "worker a frozen", "worker b frozen", "worker b asked to stop")
    assert not [each for each in (*BROKERS, *of_workers) if each not in seen]
    assert "worker a killed" not in seen, "it lasts, so that what leaks adds up"


def test_with_one_broker_a_side_no_leader_is_moved_and_all_else_comes_up(faults: Drawn) -> None:
    seen = faults(7, brokers=1)
    assert [each for each in BROKERS if each not in " ".join(seen)] == ["moved"]
    assert len(seen) == FAULTS


def hurt(monkeypatch: pytest.MonkeyPatch, fault: str, looks: Iterable[int]) -> Stage:
    """A fault of worker b, which says at each look how many slots it copies, the last for good."""
    monkeypatch.setattr(soak, "hold_sync", lambda *_, **__: None)
    told = list(looks)

    def states(worker: Worker) -> dict[str, int]:
        if worker.name == "b" and told and not worker.calls:
            stage.slots["b"] = told.pop(0)
        return {"copying": worker.slots[worker.name]}

    monkeypatch.setattr(soak, "states", states)
    stage = Stage()
    run = Soak(cast(Drill, stage), random.Random(7))
    run.start("a")
    run.start("b")
    monkeypatch.setattr(run.dice, "choice", lambda names: "b")
    getattr(run, fault)()
    return stage


OF_WORKERS = ("worker_killed", "worker_stopped", "worker_frozen")


@pytest.mark.parametrize("fault", OF_WORKERS)
def test_a_worker_is_hurt_when_it_has_been_given_slots(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    [(bit, told)] = hurt(monkeypatch, fault, [0, 0, 3]).proofs
    assert bit
    assert "it copied 3 slots" in told


@pytest.mark.parametrize("fault", OF_WORKERS)
def test_a_fault_of_a_worker_without_slots_has_not_bitten_and_ends_no_soak(
    monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(soak, "FLOWING_S", 0.0)
    [(bit, told)] = hurt(monkeypatch, fault, [0]).proofs
    assert not bit
    assert "it copied 0 slots" in told


def test_a_frozen_worker_is_woken_when_its_slots_were_taken_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when nobody takes them: that ends the soak, as slots do that are not copied again."""
    monkeypatch.setattr(soak, "hold_sync", lambda *_, **__: None)
    monkeypatch.setattr(Worker, "freeze", lambda worker: worker.calls.append("freeze"))
    monkeypatch.setattr(soak, "FLOWING_S", 0.0)
    stage = Stage()
    run = Soak(cast(Drill, stage), random.Random(7))
    run.start("a")
    run.start("b")
    with pytest.raises(NotInTimeError, match="all slots to be copied by"):
        run.worker_frozen()
    assert stage.proofs == []
    assert [each for worker in run.workers.values() for each in cast(Worker, worker).calls] == [
        "freeze",
        "thaw",
    ]


@pytest.mark.parametrize(
    ("warmed_s", "verdict"),
    [(600.0, Verdict.UNKNOWN), (HOUR_S, Verdict.PASS), (0.0, Verdict.PASS)],
    ids=["for more than an hour", "not for an hour yet", "never warm"],
)
def test_a_worker_that_holds_more_and_more_makes_a_soak_unknown(
    warmed_s: float, verdict: Verdict
) -> None:
    run = Soak(cast(Drill, Stage()), random.Random(7))
    run.began, run.warmed_s = time.monotonic() - 1.5 * HOUR_S, warmed_s
    run.trends[LASTING].samples += [
        Holding(minute * 60, 100 + 2 * minute, 50, 50) for minute in range(90)
    ]
    assert run.level() is verdict
