"""Settings of console: the `services.console` subtree of the estate file."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from mirrorfleet.config.connect import read_header
from mirrorfleet.config.model import Estate
from mirrorfleet.config.security import Secret
from mirrorfleet.config.tuning import parse_tuning
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.runtime.log import also_strike

SHORTEST_TOKEN: Final = 16
"""Characters; a shorter one can be guessed."""


class ConsoleSettings(BaseModel):
    """All of them have a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    token: Secret | None = None
    """Who sends it may ask for more than reading; without one nobody may."""
    refresh_s: float = Field(default=1.0, ge=0.1, le=60)
    """Between two states of a page that is open."""
    ping_s: float = Field(default=5.0, ge=0.2, le=60)
    """Between two questions to each cluster whether it is there."""
    request_s: float = Field(default=5.0, gt=0, le=60)
    """Deadline of one kind of request to a cluster; then the page says that it does not answer."""
    history_s: float = Field(default=86_400.0, ge=1, le=31_536_000)
    """How far back events are read at the start; they are kept for 90 days."""
    most_streams: int = Field(default=200, ge=0)
    """Pages that are kept live at once; further ones are shown as they were when opened."""


def parse(subtree: Mapping[str, object]) -> ConsoleSettings:
    """The settings. Raises: ConfigError naming every problem."""
    return parse_tuning(ConsoleSettings, "console", subtree)


def token_of(estate: Estate, settings: ConsoleSettings) -> str | None:
    """The token itself. Raises: ConfigError when it is not there, too short, or no header's."""
    path = "services.console.token"
    value = read_header(estate, path, settings.token)
    if value is not None and len(value) < SHORTEST_TOKEN:
        raise ConfigError(
            f"{path}: shorter than {SHORTEST_TOKEN} characters.",
            path=path,
            hint="Make one with: openssl rand -hex 32",
        )
    return value


class KeptToken:
    """The token as it is at each question; while its file is written anew, the last one."""

    def __init__(self, estate: Estate, settings: ConsoleSettings) -> None:
        """Raises: ConfigError, see `token_of`."""
        self._estate, self._settings = estate, settings
        self._last = self._read()

    def __call__(self) -> str | None:
        with suppress(ConfigError):
            self._last = self._read()
        return self._last

    def _read(self) -> str | None:
        found = token_of(self._estate, self._settings)
        also_strike([found] if found else [])
        return found
