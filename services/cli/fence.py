"""`fence`: the emergency stop of a link, also of workers that nobody can reach, and its end."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import time
from pathlib import Path

from mirrorfleet.config.load import load_estate
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.mapping.fencing import mark
from mirrorfleet.operating.connecting import open_cluster
from mirrorfleet.operating.terminal import EXIT_ERROR, EXIT_OK, Output, print_json, print_table
from mirrorfleet.records.positions import Fence, Lifted


def run(estate_file: Path, link_text: str, reason: str | None, output: Output) -> int:
    """Fence every slot of a link for a reason; without one, lift the fences. Says what happened."""
    estate = load_estate(estate_file)
    links = {str(one.link): one.link for one in estate.links}
    link = links.get(link_text)
    if link is None:
        hint = f"Links: {', '.join(links)}."
        raise ConfigError(f"{link_text!r} is no link of the estate.", hint=hint)
    now_ms = int(time.time() * 1000)
    who = f"{_user()}@{socket.gethostname()}"
    entry = Lifted() if reason is None else Fence(who=who, reason=reason, time_ms=now_ms)

    async def marked() -> list[dict[str, object]]:
        async with open_cluster(estate, link.target) as target:
            found = await mark(target, estate.fleet_of(link.target), link, entry, now_ms)
        done = "may copy" if reason is None else "fenced"
        return [{"slot": slot, "state": trouble or done} for slot, trouble in found.items()]

    rows = asyncio.run(marked())
    print_json(rows) if output is Output.JSON else print_table(("slot", "state"), rows)
    return EXIT_OK if all(row["state"] in ("fenced", "may copy") for row in rows) else EXIT_ERROR


def _user() -> str:
    """The user's name; the uid where it has none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
