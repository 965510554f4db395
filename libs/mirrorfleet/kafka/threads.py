"""Work that may hang for as long as a name is looked up, in a thread of its own.

Of a shared pool it would take the threads that others wait for: libuv looks up no more than two
names at once. Nothing waits for the end of such a thread.
"""

from __future__ import annotations

import concurrent.futures
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def begun(work: Callable[[], T], name: str) -> concurrent.futures.Future[T]:
    """What `work` will give; wait for it with `asyncio.wrap_future`, as many as want to."""
    done: concurrent.futures.Future[T] = concurrent.futures.Future()
    done.set_running_or_notify_cancel()  # cannot be cancelled: who waits for it goes on alone

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done
