"""Waiting until a loaded fleet is calm: what is promised is promised of brokers that run already.

Java interprets at first, for one to three minutes: brokers take three times the CPU, and the slots
of a fleet without any fault stand for two to ten seconds (measured).
"""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, Final

import httpx

from mirrorfleet.runtime import metric_names
from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from tests.faultkit.process import ServiceProcess

CALM_S: Final = 1.0
WARM_S: Final = 20.0
WARMED_S: Final = 300.0
"""What brokers that are not warm yet are given, and how one knows that they are."""
_SINCE: Final = metric_names.SINCE_PROGRESS.name + "{"


def since_progress(mirror: ServiceProcess) -> float:
    """Seconds since the last commit of the slot with work that waits longest; without an end where
    it has none yet.
    """
    lines = mirror.get("/metrics").text.splitlines()
    return max((float(line.split()[-1]) for line in lines if line.startswith(_SINCE)), default=inf)


def wait_calm(*mirrors: ServiceProcess, calm_s: float = CALM_S, warm_s: float = WARM_S) -> None:
    """Wait until no slot has stood for longer than `calm_s`, `warm_s` long."""
    calm_since = time.monotonic()

    def look() -> bool:
        nonlocal calm_since
        try:
            is_calm = max(map(since_progress, mirrors)) <= calm_s
        except httpx.HTTPError:
            is_calm = False
        if not is_calm:
            calm_since = time.monotonic()
        return time.monotonic() - calm_since > warm_s

    wait_until(
        look,
        deadline_s=WARMED_S,
        what=f"slots to stand for {calm_s:g} s at most, {warm_s:g} s long",
        every_s=calm_s / 4,  # a look takes time of the worker's, too
    )
