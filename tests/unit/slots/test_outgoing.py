"""What a connection of the slot to a target broker is, once it has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn, cast

import pytest

from mirrorfleet.copying.allowance import Allowance
from mirrorfleet.core.errors import ConnectionLostError, DeadlineError, MirrorfleetError
from mirrorfleet.slots.outgoing import AbortError, Pipe
from tests.fakes.clock import HandClock

if TYPE_CHECKING:
    from mirrorfleet.kafka.producer import ProduceLane


@pytest.mark.parametrize("ended", [ConnectionLostError("cut"), DeadlineError("no answer in 15 s")])
def test_one_that_ended_meanwhile_costs_the_transaction_and_not_the_slot(
    ended: MirrorfleetError,
) -> None:
    def send(*_: object, **__: object) -> NoReturn:
        raise ended

    pipe = Pipe(cast("ProduceLane", SimpleNamespace(send=send)), Allowance(), HandClock())

    with pytest.raises(AbortError, match="the produce connection is lost"):
        pipe.request([], timeout_ms=5)
