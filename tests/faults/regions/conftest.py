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


@pytest.fixture(scope="package")
def pair() -> Iterator[dict[str, FarRegion]]:
    """East and west; long drills ask much of six brokers on two cores."""
    tuning = Tuning.STEADY if IS_LONG else Tuning.QUICK
    specs = [RegionSpec(name=side, brokers=BROKERS, tuning=tuning) for side in ("east", "west")]
    with far_pair(*specs) as made:
        yield made
