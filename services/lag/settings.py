"""Settings of lag: the `services.lag` subtree of the estate file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mirrorfleet.config.tuning import parse_tuning
from mirrorfleet.lagging.verdict import Limits

_LOOKS: Final = 3
"""A source's end is looked at so often before it counts as unseen: one look may be late."""


class LagSettings(BaseModel):
    """All of them have a default; a time lag is right to about `ends_s` with them."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    ends_s: float = Field(default=1.0, ge=0.1, le=60)
    """Between two looks at the ends of a source; three of them fit into `unseen_s`."""
    look_s: float = Field(default=1.0, ge=0.1, le=60)
    """Between two judgements of each partition."""
    sample_s: float = Field(default=5.0, ge=0.1, le=25)
    """Between two samples of a partition whose verdict stays; six times as long when idle.

    The report of service levels takes a sample for three minutes: with more, a healthy idle
    partition would count as unseen.
    """
    allowed_s: float = Field(default=10.0, gt=0)
    """Time lag up to this is fine."""
    stuck_s: float = Field(default=15.0, ge=2)
    """Without a move while records wait: stuck."""
    silent_s: float = Field(default=10.0, ge=4)
    """Without a word of the worker: stopped. It may speak every 3 s (mirror.progress_s)."""
    unseen_s: float = Field(default=15.0, ge=2)
    """Without a look at the source's end: unknown."""
    idle_s: float = Field(default=30.0, ge=1)
    """Without a new record at the source: idle."""
    held_s: float = Field(default=60.0, ge=1)
    """An open transaction that holds records back for so long is told as stuck."""
    group_session_s: float = Field(default=10.0, ge=6, le=60)
    """Session of the group that shares the slots out; another instance takes over after it."""

    @model_validator(mode="after")
    def _looks_in_time(self) -> Self:
        """Otherwise each healthy partition would be unknown between two looks, time and again."""
        if _ms(self.unseen_s) < _LOOKS * _ms(self.ends_s):
            raise ValueError(
                f"unseen_s ({self.unseen_s:g}) must be at least {_LOOKS} times ends_s"
                f" ({self.ends_s:g}): healthy partitions would be unknown between two looks"
            )
        return self

    @property
    def limits(self) -> Limits:
        """The same for the rules, in milliseconds."""
        return Limits(
            allowed_ms=_ms(self.allowed_s),
            silent_ms=_ms(self.silent_s),
            stuck_ms=_ms(self.stuck_s),
            unseen_ms=_ms(self.unseen_s),
            fresh_ms=min(_ms(self.unseen_s), max(Limits().fresh_ms, _LOOKS * _ms(self.ends_s))),
            idle_ms=_ms(self.idle_s),
            held_ms=_ms(self.held_s),
        )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def parse(subtree: Mapping[str, object]) -> LagSettings:
    """The settings. Raises: ConfigError naming every problem."""
    return parse_tuning(LagSettings, "lag", subtree)
