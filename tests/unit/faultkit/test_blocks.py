"""Two test processes have no port in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faultkit import blocks
from tests.faultkit.blocks import SIZE, own_block


@pytest.fixture
def held() -> Iterator[None]:
    """What is bound here is given back."""
    before = len(blocks._held)
    yield
    for flag in blocks._held[before:]:
        flag.close()
    del blocks._held[before:]


@pytest.mark.usefixtures("held")
def test_blocks_are_each_given_once_and_then_all_ports_are_shared() -> None:
    ports = range(40_000, 40_000 + 3 * SIZE + 7)

    given = [own_block(ports) for _ in range(3)]

    assert sorted(each[0] for each in given) == [40_001, 44_001, 48_001]
    assert {len(each) for each in given} == {SIZE - 1}
    assert own_block(ports) == ports
