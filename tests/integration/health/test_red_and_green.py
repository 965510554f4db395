"""`/healthz` and `/readyz` of every service: red for the fault that they name, and green again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from services.local.region import RegionSpec
from tests.conftest import running
from tests.faultkit.estate import write_estate
from tests.faultkit.process import ServiceProcess, service
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import create

if TYPE_CHECKING:
    from collections.abc import Iterator

    from services.local.region import Region

pytestmark = pytest.mark.timeout(400)

SERVICES = ("sync", "mirror", "checkpoint", "heartbeat", "lag")
READY_S = 120.0
RED_S = 90.0
GREEN_S = 120.0
HOLD = "target west"
"""What holds a service back that never reached its target."""
LOOK_S = 1.0
"""An answer that takes longer is none: the loop stands still."""


@dataclass
class World:
    """A link east -> west with all services, on regions that may be stopped."""

    east: Region
    west: Region
    estate: Path
    services: dict[str, ServiceProcess] = field(default_factory=dict)

    def reasons(self, name: str) -> dict[str, str]:
        """What holds a service back; empty when it is ready."""
        answer = self.services[name].get("/readyz")
        reasons: dict[str, str] = answer.json()["reasons"]
        assert answer.status_code == (503 if reasons else 200)
        return reasons

    def is_at_work(self, name: str) -> bool:
        """Whether a service is ready and active: a standby is ready, too."""
        status = self.services[name].status()
        return bool(status["ready"]) and status["role"] == "active"

    def is_alive(self, name: str) -> bool:
        """Whether the loop of a service turns."""
        try:
            answer = httpx.get(self.services[name].wait_url() + "/healthz", timeout=LOOK_S)
        except httpx.TimeoutException:
            return False
        return answer.is_success


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """All of it, ready."""
    directory = tmp_path_factory.mktemp("health")
    for east, west in running(RegionSpec(name="east"), RegionSpec(name="west")):
        create(east, "orders", 2)
        estate = write_estate(
            directory,
            source=address(east),
            target=address(west),
            fleet="health",
            topics=["orders"],
            services={"sync": {"period_s": 0.5}, "checkpoint": {"period_s": 0.5}},
        )
        made = World(east, west, estate)
        with ExitStack() as stack:
            for name in SERVICES:
                one = service(name, estate=estate, target="west", logs=directory)
                made.services[name] = stack.enter_context(one)
            for process in made.services.values():
                process.wait_url(READY_S)
                process.wait_ready(READY_S)
            yield made


def wait_alive(world: World, names: Iterable[str]) -> None:
    """What holds a service back keeps no loop: each turns, whatever the machine does meanwhile."""
    for name in names:
        wait_until(
            partial(world.is_alive, name), deadline_s=GREEN_S, what=f"the loop of {name} to turn"
        )


@contextmanager
def stopped(region: Region) -> Iterator[None]:
    """Kill its broker, and start it again."""
    (broker,) = region.brokers
    broker.kill()
    try:
        yield
    finally:
        broker.restart()


@contextmanager
def frozen(process: ServiceProcess) -> Iterator[None]:
    """Let it stand still for a while."""
    process.freeze()
    try:
        yield
    finally:
        process.thaw()


Fault = Callable[[World], AbstractContextManager[None]]


def no_target(world: World) -> AbstractContextManager[None]:
    return stopped(world.west)


def no_source(world: World) -> AbstractContextManager[None]:
    return stopped(world.east)


def no_worker(world: World) -> AbstractContextManager[None]:
    return frozen(world.services["mirror"])


FAULTS: dict[Fault, dict[str, str]] = {
    no_target: {
        # who must be the only active one is not, when nobody can say so
        "sync": "group",
        "mirror": "target west",
        "checkpoint": "group",
        "heartbeat": "group",
        "lag": "progress east->west",
    },
    no_source: {
        "sync": "link east->west",
        "mirror": "source east",
        "checkpoint": "link east->west",
        "lag": "source ends east->west",
    },
    no_worker: {"lag": "progress east->west"},
}
"""What each service says that holds it back; who is not named stays ready."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_service_is_not_ready_while_what_it_needs_is_away(world: World, fault: Fault) -> None:
    named = FAULTS[fault]
    with fault(world):
        answering = [name for name in SERVICES if fault is not no_worker or name != "mirror"]
        for name, hold in named.items():
            wait_until(
                lambda: hold in world.reasons(name),  # noqa: B023 - called before the next turn
                deadline_s=RED_S,
                what=f"{name} to say that {hold} holds it back",
                ignoring=(httpx.TransportError,),
            )
        wait_until(  # a broker that stands still for a moment makes others red, too, for a moment
            lambda: {name for name in answering if world.reasons(name)} == set(named),
            deadline_s=RED_S,
            what=f"exactly {sorted(named)} to be red",
            ignoring=(httpx.TransportError,),
        )
        wait_alive(world, answering)

    for name in SERVICES:
        wait_until(
            lambda: world.is_at_work(name),  # noqa: B023 - called before the next turn
            deadline_s=GREEN_S,
            what=f"{name} to be at work again",
            ignoring=(httpx.TransportError,),
        )


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_whose_loop_stands_still_is_not_alive(world: World, name: str) -> None:
    with frozen(world.services[name]):
        alive = world.is_alive(name)

    assert not alive
    wait_until(lambda: world.is_alive(name), deadline_s=GREEN_S, what=f"{name} to be alive again")
    wait_until(lambda: world.is_at_work(name), deadline_s=GREEN_S, what=f"{name} to be at work")


def test_a_service_that_starts_without_its_target_is_red_and_green_once_it_is_there(
    world: World, tmp_path: Path
) -> None:
    named = {**FAULTS[no_target], **dict.fromkeys(SERVICES, HOLD)}
    with ExitStack() as stack:
        with stopped(world.west):
            late = World(world.east, world.west, world.estate)
            for name in SERVICES:
                one = service(name, estate=world.estate, target="west", logs=tmp_path)
                late.services[name] = stack.enter_context(one)
            for name, hold in named.items():
                wait_until(
                    lambda: hold in late.reasons(name),  # noqa: B023 - called before the next turn
                    deadline_s=RED_S,
                    what=f"{name} to say that {hold} holds it back",
                )
            wait_alive(late, SERVICES)
        for process in late.services.values():
            process.wait_ready(GREEN_S)
