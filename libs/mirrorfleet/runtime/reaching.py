"""Reaching the fleet's target at the start, however long it is away.

    if await reached(context, stop, target.open):
        ...

A host that comes up while the target is down needs nobody to start its services again: they stay,
say why they are not ready, and begin once it answers. Commands that run once end in their deadline.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mirrorfleet.copying.schedule import backoff_s
from mirrorfleet.core.errors import MirrorfleetError
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mirrorfleet.runtime.entry import Context
    from mirrorfleet.runtime.lifecycle import Stop

_log = logger(__name__)


async def reached(context: Context, stop: Stop, reach: Callable[[], Awaitable[None]]) -> bool:
    """Do `reach`, which may be done again and again, until it succeeds; False when the stop came.

    Raises: MirrorfleetError that waiting does not help: who refuses us would refuse us again.
    """
    await stop.unless(_try(context, reach))
    return not stop.is_set()


async def _try(context: Context, reach: Callable[[], Awaitable[None]]) -> None:
    hold, failures = f"target {context.target}", 0
    while True:
        try:
            await reach()
        except MirrorfleetError as error:
            if not error.retriable:
                raise
            failures += 1
            context.health.hold(hold, str(error))
            if failures == 1:  # the reason of now is in /readyz; here it would be a line every 5 s
                told = fields(target=context.target, error=str(error))
                _log.warning("waiting for the target", extra=told)
        else:
            break
        await asyncio.sleep(backoff_s(failures, context.dice.uniform(0, 1)))
    context.health.release(hold)
    if failures:
        _log.info("the target is there", extra=fields(target=context.target))
