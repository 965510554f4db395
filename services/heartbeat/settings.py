"""Settings of heartbeat: the `services.heartbeat` subtree of the estate file."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from mirrorfleet.config.tuning import parse_tuning


class Place(StrEnum):
    """Where a link's heartbeats are written."""

    TARGET = "target"
    """As MM2: the next fleet of a chain copies them on."""
    SOURCE = "source"
    """This fleet's own mirror copies them, too; needs the rights to create and write `heartbeats`
    on the source, where a fleet writes nothing else."""


class HeartbeatSettings(BaseModel):
    """By default one heartbeat a second on the target, as MM2."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    period_s: float = Field(default=1.0, ge=0.1, le=60)
    """Between two heartbeats of a link."""
    write_s: float = Field(default=5.0, gt=0, le=60)
    """Deadline of one heartbeat; after it the service is not ready, and goes on trying."""
    place: Place = Place.TARGET
    """The cluster that gets them."""


def parse(subtree: Mapping[str, object]) -> HeartbeatSettings:
    """The settings. Raises: ConfigError naming every problem."""
    return parse_tuning(HeartbeatSettings, "heartbeat", subtree)
