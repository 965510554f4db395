"""What every test may ask for: real regions, shared where that is enough.

`east` and `west` live as long as the session; a test that breaks brokers asks `regions` for its
own. All use free ports, and end with this process, also when it is killed (services/local).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from services.local import ports
from services.local.region import Region, RegionSpec, start_regions
from tests.faultkit.blocks import own_block
from tests.faultkit.regions import UNFENCED

UNIT_TIMEOUT_S = 20
HOME = Path(__file__).resolve().parents[1] / ".local"

ports.PORTS = own_block(ports.PORTS)
settings.register_profile("mirrorfleet", deadline=None)  # the time of an example is the machine's
settings.load_profile("mirrorfleet")


class Regions(Protocol):
    """Starts regions side by side, in folders of their own; they end with the test."""

    def __call__(self, *specs: RegionSpec) -> list[Region]: ...


class Together(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Where processes share the tests (`-n`) one has all that may share brokers: those of a folder
    with a conftest.py, or of a file.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = Path(nodeid.partition("::")[0])
        is_shared = (HOME.parent / file.parent / "conftest.py").exists()
        return str(file.parent if is_shared else file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    """Hand out the tests so."""
    return Together(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Unit tests do no I/O: one that takes long hangs."""
    for item in items:
        if "unit" in item.path.parts and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(UNIT_TIMEOUT_S))


def running(*specs: RegionSpec) -> Iterator[list[Region]]:
    """The regions while they are needed, in a folder that goes with them."""
    HOME.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="test-", dir=HOME))
    try:
        regions = start_regions(specs, directory)
        try:
            yield regions
        finally:
            for region in regions:
                region.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_pair() -> Iterator[list[Region]]:
    """Both shared regions, started side by side."""
    yield from running(*(RegionSpec(name=side, extra=UNFENCED) for side in ("east", "west")))


@pytest.fixture(scope="session")
def east(shared_pair: list[Region]) -> Region:
    """A region of one broker, Kafka 4.3.0, plain text; shared, so use topics of your own."""
    return shared_pair[0]


@pytest.fixture(scope="session")
def west(shared_pair: list[Region]) -> Region:
    """The other one."""
    return shared_pair[1]


@pytest.fixture
def regions() -> Iterator[Regions]:
    """For tests that need regions of their own: several brokers, versions, security."""
    started: list[Iterator[list[Region]]] = []

    def start(*specs: RegionSpec) -> list[Region]:
        started.append(running(*specs))
        return next(started[-1])

    yield start
    for generator in reversed(started):
        next(generator, None)
