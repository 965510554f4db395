"""Beginning the active part of a service: what will be had later is waited for, and said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mirrorfleet.copying.schedule import backoff_s
from mirrorfleet.core.errors import (
    FencedError,
    MirrorfleetError,
    NotOursError,
    OutdatedError,
    RefusedError,
)
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mirrorfleet.core.ports import Dice

_log = logger(__name__)
_PASSING = (NotOursError, OutdatedError, FencedError)


async def begun(
    begin: Callable[[], Awaitable[None]],
    *,
    is_ours: Callable[[], Awaitable[bool]],
    tell: Callable[[str], None],
    dice: Dice,
) -> None:
    """Do `begin` until it succeeds; `tell` hears why not. It may be done again and again.

    A write that nobody's word allows us, or a refusal while nobody confirms our place (`is_ours`),
    is no word on the estate: whoever watches the place ends us, or it is confirmed again. Nor is
    a write that an operator's command came before.

    Raises: MirrorfleetError that waiting does not help.
    """
    failures = 0
    while True:
        try:
            await begin()
        except MirrorfleetError as error:
            is_refusal = isinstance(error, RefusedError)
            is_passing = isinstance(error, _PASSING) or (is_refusal and not await is_ours())
            if not (error.retriable or is_passing):
                raise
            failures += 1
            tell(str(error))
            _log.warning("cannot begin yet", extra=fields(error=str(error)))
        else:
            return
        await asyncio.sleep(backoff_s(failures, dice.uniform(0, 1)))
