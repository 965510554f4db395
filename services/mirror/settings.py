"""Settings of the mirror: the `services.mirror` subtree of the estate file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from mirrorfleet.config.tuning import parse_tuning
from mirrorfleet.slots.settings import SlotSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


class MirrorSettings(SlotSettings):
    """How slots copy, and how often the worker reports."""

    progress_s: float = Field(default=1.0, gt=0, le=3)
    """Between two snapshots of a slot; others take one that is 10 s old for a worker's end."""


def parse(subtree: Mapping[str, object]) -> MirrorSettings:
    """The settings. Raises: ConfigError naming every problem."""
    return parse_tuning(MirrorSettings, "mirror", subtree)
