"""The pipe, with records and groups in it, for all tests of this folder."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from services.local.region import RegionSpec
from tests.conftest import running
from tests.integration.pipe.pipe import NAMES, Pipe


@pytest.fixture(scope="package")
def pipe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipe]:
    dice = random.Random(3)
    for regions in running(*(RegionSpec(name=name) for name in NAMES)):
        made = Pipe(dict(zip(NAMES, regions, strict=True)), tmp_path_factory.mktemp("pipe"))
        made.write_estate()
        made.fill(dice)
        with made.running():
            made.wait_copied()
            asyncio.run(made.place_groups(dice))
            yield made
