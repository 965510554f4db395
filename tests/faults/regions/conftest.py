"""Three brokers a side behind gates, shared by the drills of a file: each heals what it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from services.local.region import RegionSpec, Tuning
from tests.faultkit.far import far_pair
from tests.faultkit.hold import IS_LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faultkit.far import FarRegion

BROKERS = 3
TUNING = Tuning.STEADY if IS_LONG else Tuning.QUICK
"""Long drills ask much of six brokers on two cores."""
SPECS = [RegionSpec(name=side, brokers=BROKERS, tuning=TUNING) for side in ("east", "west")]


@pytest.fixture(scope="package")
def pair() -> Iterator[dict[str, FarRegion]]:
    """East and west."""
    with far_pair(*SPECS) as made:
        yield made
