"""Ending a transaction that must not be committed, and finding out whether its id can go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorfleet.copying.faults import Action
from mirrorfleet.core.errors import FencedError
from mirrorfleet.kafka.together import helped
from mirrorfleet.kafka.transactions import TransactionVersion
from mirrorfleet.runtime.log import fields, logger
from mirrorfleet.slots import healing
from mirrorfleet.slots.outgoing import AbortError, RetakeError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from mirrorfleet.slots.runner import SlotRunner
    from mirrorfleet.slots.sending import Sender

_log = logger(__name__)


async def aborted(runner: SlotRunner, sender: Sender, error: AbortError) -> None:
    """Back to the last commit; v1 also needs a new epoch, or the abort is silently undone.

    Raises: FencedError; RetakeError; WedgedError when the slot goes on with its spare id.
    """
    runner.trouble = str(error)
    with runner.meters.aborted(error.action, runner.number):
        text = fields(link=str(runner.link), slot=runner.number, error=str(error))
        _log.warning("transaction aborted", extra=text)
    runner.targets.ask()
    runner.depth.aborted()
    if error.action is Action.FENCED:
        raise FencedError(str(error)) from error
    if runner.transaction_version is TransactionVersion.V1:
        healing.after_refusal(runner, error)
        raise RetakeError(f"aborted: {error}") from error
    await runner.wedges.before_abort()
    if runner.wedges.is_suspect(error):
        try:
            await helped(_suspected(runner, sender, error), runner.spare.reach())
        finally:
            if not runner.wedges.left_behind:
                runner.spare.rest()
    else:
        await _undone(runner, sender.abort(), error, {})
    if error.action is Action.SLOT_DENIED:
        raise RetakeError(str(error)) from error


async def _suspected(runner: SlotRunner, sender: Sender, error: AbortError) -> None:
    coordinators: dict[str, int] = {}
    abort = helped(sender.abort(), runner.wedges.look_ahead(coordinators))
    await _undone(runner, abort, error, coordinators)


async def _undone(
    runner: SlotRunner,
    abort: Coroutine[object, object, None],
    error: AbortError,
    coordinators: dict[str, int],
) -> None:
    await abort
    runner.doubts.closed()
    runner.doubts.renew()
    runner.slot.rewind()
    healing.after_refusal(runner, error)
    await runner.wedges.after(error, coordinators)
