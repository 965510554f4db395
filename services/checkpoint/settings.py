"""Settings of checkpoint: the `services.checkpoint` subtree of the estate file."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from mirrorfleet.config.tuning import parse_tuning


class Pack(StrEnum):
    """Who packs segments into the archive. Both at once lose nothing and do work twice."""

    FLEET = "fleet"
    SPARK = "spark"


class CheckpointSettings(BaseModel):
    """All of them have a default; a group's place is at most 5 s old with them."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    period_s: float = Field(default=5.0, ge=0.2, le=60)
    """Between two looks at the groups of a link."""
    request_s: float = Field(default=15.0, gt=0, le=60)
    """Deadline of one kind of request to a cluster, tries included; then the service is red."""
    rewrite_s: float = Field(default=86_400.0, ge=1)
    """Offsets that do not move are written again: the target forgets them after 7 days
    (offsets.retention.minutes)."""
    home_again_s: float = Field(default=300.0, ge=0)
    """A group that was active on the target is followed again after so long without members and
    without a move there, when it has members on the source or its offsets move there."""
    pack: Pack = Pack.FLEET
    pack_period_s: float = Field(default=30.0, ge=0.1)
    """Between two looks for slots with enough segments."""
    pack_at_least: int = Field(default=5_000, ge=1)
    """Offsets of a slot's segments that are worth a pass: a few hundred kB."""
    prune_period_s: float = Field(default=3_600.0, ge=1)
    """Between two removals of what is below both logs' begins. That the topic of a removed copy is
    gone is believed at the second one."""


def parse(subtree: Mapping[str, object]) -> CheckpointSettings:
    """The settings. Raises: ConfigError naming every problem."""
    return parse_tuning(CheckpointSettings, "checkpoint", subtree)
