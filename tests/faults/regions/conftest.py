"""Three brokers a side behind gates, shared by the drills of a file: each heals what it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from services.local.region import RegionSpec
from tests.faultkit.far import far_pair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faultkit.far import FarRegion

BROKERS = 3


@pytest.fixture(scope="package")
def pair() -> Iterator[dict[str, FarRegion]]:
    """East and west."""
    specs = [RegionSpec(name=side, brokers=BROKERS) for side in ("east", "west")]
    with far_pair(*specs) as made:
        yield made
