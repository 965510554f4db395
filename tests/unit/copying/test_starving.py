"""Memory that is missing for a moment is waited for; what is missing for long ends the process."""

from __future__ import annotations

import pytest

from mirrorfleet.copying.starving import STARVED_S, Starving
from mirrorfleet.core.errors import ConnectionLostError, NoMemoryError, StarvedError

MISSING = NoMemoryError("a connection to b:9092 (east)")
LOST = ConnectionLostError("connection to b:9092 was closed by the broker.")


def test_memory_that_is_missing_for_long_is_said_to_be_missing_for_good() -> None:
    starving = Starving()
    starving.failed(MISSING, 100.0, answered=False)
    starving.failed(MISSING, 100.0 + STARVED_S, answered=False)
    with pytest.raises(StarvedError) as caught:
        starving.failed(MISSING, 101.0 + STARVED_S, answered=False)
    assert str(caught.value) == (
        "memory was missing for 11 s. no memory for a connection to b:9092 (east)."
        " Give the process more memory."
    )
    assert not caught.value.retriable


@pytest.mark.parametrize(
    ("error", "answered"), [(MISSING, True), (LOST, False)], ids=["answered", "another error"]
)
def test_what_came_in_between_or_failed_otherwise_is_no_lack_of_memory(
    error: ConnectionLostError, *, answered: bool
) -> None:
    starving = Starving()
    starving.failed(MISSING, 100.0, answered=False)
    starving.failed(error, 109.0, answered=answered)
    starving.failed(MISSING, 118.0, answered=False)
    with pytest.raises(StarvedError):
        starving.failed(MISSING, 130.0, answered=False)
