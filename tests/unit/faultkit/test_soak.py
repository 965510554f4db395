"""The seed of a soak decides its faults and their order: what was seen once can be seen again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.faults import soak
from tests.faults.regions import breaking
from tests.faults.regions.drill import Drill
from tests.faults.soak import Soak

FAULTS = 200
BROKERS = ("killed", "frozen", "restarted", "moved", "hole", "reset", "half_open", "slow")


class Stage:
    """A drill in which nothing breaks: it writes down what would have been broken."""

    def __init__(self) -> None:
        self.name = "soak"
        self.seen: list[str] = []
        nodes = (1, 2, 3)
        side = SimpleNamespace(
            region=SimpleNamespace(brokers=[f"broker {n}" for n in nodes]),
            gates={n: f"gate {n}" for n in nodes},
        )
        self.pair = {"east": side, "west": side}

    def roles(self, side: str) -> Any:
        return SimpleNamespace(controller=lambda: side)

    def mirror(self, name: str) -> Any:
        nothing = {each: lambda *_: 0 for each in ("kill", "freeze", "thaw", "terminate")}
        left = {"exit_code": -9, "wait_exit": lambda _: 0, "text": lambda: ""}
        return SimpleNamespace(name=name, **left, **nothing)

    @contextmanager
    def fault(self, name: str) -> Iterator[Any]:
        self.seen.append(name)
        yield SimpleNamespace(bit=lambda *_: None)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """The faults of a seed."""

    def note(name: str) -> Callable[..., None]:
        def noted(stage: Stage, *told: object, **more: object) -> None:
            stage.seen.append(f"{name} {told} {more}")

        return noted

    for name in BROKERS:
        monkeypatch.setattr(breaking, name, note(name))
    monkeypatch.setattr(soak, "hold_sync", lambda *_, **__: None)

    def drawn(seed: int) -> list[str]:
        stage = Stage()
        run = Soak(cast(Drill, stage), random.Random(seed))
        run.start("a")
        run.start("b")
        for _ in range(FAULTS):
            run.dice.choice(run.table)()
        return stage.seen

    return drawn


def test_a_seed_replays_its_faults_and_another_one_has_others(
    faults: Callable[[int], list[str]],
) -> None:
    once, again, other = faults(7), faults(7), faults(8)
    assert once == again != other
    assert len(once) == FAULTS


def test_every_kind_of_fault_comes_up(faults: Callable[[int], list[str]]) -> None:
    seen = " ".join(faults(7))
    of_workers = ("worker b killed", "worker a frozen", "worker b frozen", "worker b asked to stop")
    assert not [each for each in (*BROKERS, *of_workers) if each not in seen]
    assert "worker a killed" not in seen, "it lasts, so that what leaks adds up"
