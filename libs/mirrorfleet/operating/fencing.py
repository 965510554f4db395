"""`fence`: every slot of a link marked, with who says so and why; or the marks taken off."""

from __future__ import annotations

import getpass
import os
import socket
from typing import TYPE_CHECKING

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.mapping.fencing import mark
from mirrorfleet.records.positions import Fence, Lifted

if TYPE_CHECKING:
    from mirrorfleet.config.model import Estate
    from mirrorfleet.core.ids import FleetName, Link
    from mirrorfleet.core.ports import Clock
    from mirrorfleet.kafka.cluster import Cluster

DONE = ("fenced", "may copy")
"""States of a slot that was marked; another one is why it was not."""


def link_of(estate: Estate, text: str) -> Link:
    """The link SOURCE->TARGET. Raises: ConfigError naming those that there are."""
    links = {str(one.link): one.link for one in estate.links}
    if text not in links:
        hint = f"Links: {', '.join(links)}."
        raise ConfigError(f"{text!r} is no link of the estate.", hint=hint)
    return links[text]


async def marked(
    target: Cluster, fleet: FleetName, link: Link, reason: str | None, clock: Clock
) -> list[dict[str, object]]:
    """What became of each slot; without a reason fences are lifted. Raises: as `mark`."""
    now_ms = clock.now_ms()
    who = f"{_user()}@{socket.gethostname()}"
    entry = Lifted() if reason is None else Fence(who=who, reason=reason, time_ms=now_ms)
    found = await mark(target, fleet, link, entry, now_ms)
    done = DONE[reason is None]
    return [{"slot": slot, "state": trouble or done} for slot, trouble in found.items()]


def _user() -> str:
    """The user's name; the uid where it has none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
