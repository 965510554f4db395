"""Tasks beside the work that they are for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from mirrorfleet.core.errors import MirrorfleetError, deciding

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def tasks() -> AsyncIterator[asyncio.TaskGroup]:
    """A group whose tasks end with the block. Raises: of several errors the one that decides."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
            raise _DoneError
    except* _DoneError:
        pass
    except* MirrorfleetError as error:
        raise deciding(error) from error


class _DoneError(Exception):
    """Raised to end the tasks."""
