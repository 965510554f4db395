"""Settings of the mirror: the `services.mirror` subtree of the estate file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.slots.settings import SlotSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


class MirrorSettings(SlotSettings):
    """How slots copy, and how often the worker reports."""

    progress_s: float = Field(default=1.0, gt=0)
    """Between two snapshots of a slot."""


def parse(subtree: Mapping[str, object]) -> MirrorSettings:
    """The settings.

    Raises:
        ConfigError: an unknown key or a value out of its range; every problem is named.
    """
    try:
        return MirrorSettings.model_validate(dict(subtree))
    except ValidationError as error:
        problems = [
            f"services.mirror.{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors()
        ]
        known = ", ".join(sorted(MirrorSettings.model_fields))
        raise ConfigError(
            "; ".join(problems), path="services.mirror", hint=f"Known keys: {known}."
        ) from error
