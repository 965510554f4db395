"""A fleet whose `lag` is quick to judge, so that a test need not wait for long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import yaml

from tests.integration.mirror.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from services.local.region import Region

SLOTS: Final = 2
TUNING: Final = {
    "sample_s": 0.5,
    "ends_s": 0.5,
    "look_s": 0.5,
    "allowed_s": 2,
    "stuck_s": 5,
    "silent_s": 4,
    "idle_s": 3,
    "group_session_s": 6,
}


def lag_fleet(
    name: str, east: Region, west: Region, directory: Path, *, topics: Sequence[str], **more: float
) -> Fleet:
    """One link east -> west over these topics."""
    rules = [{"name": "all", "topics": list(topics)}]
    fleet = Fleet(name, east, west, directory, rules=rules, slots=SLOTS)
    estate = yaml.safe_load(fleet.estate.read_text())
    estate["services"]["lag"] = {**TUNING, **more}
    fleet.estate.write_text(yaml.safe_dump(estate))
    return fleet
