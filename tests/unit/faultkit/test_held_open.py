"""A drill watches the neighbours of an open transaction until what it withheld is copied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from tests.faults.neighbours import test_neighbours as drills
from tests.judge.reading import At, Ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from tests.faults.regions.drill import Drill

SOURCE = [Ends(100, 600), Ends(100, 5_000), Ends(100, 5_002)]
"""With the transaction open, after a while, and when it was committed."""
COPY = [150, 150, 3_000, 5_051, 5_052, 6_000]
"""By 4,902 more it has all that waited."""


class Stage:
    """Two regions, of which the ends move with each look; writes down what happens."""

    def __init__(self) -> None:
        self.name, self.east, self.west = "open", "east", "west"
        self.seen: list[str] = []
        self.source, self.copy = iter(SOURCE), iter(COPY)

    def ends_of(self, region: str, partitions: Sequence[At]) -> dict[At, Ends]:
        if region == "east":
            return {At("one", 0): next(self.source)}
        end = next(self.copy)
        self.seen.append(f"copied to {end}")
        return {At("east.one", 0): Ends(end, end)}

    def hold_sync(self, seconds: float, *, reason: str) -> None:
        self.seen.append(reason)

    def transactional(self, region: str, name: str) -> SimpleNamespace:
        return SimpleNamespace(
            begin_transaction=lambda: self.seen.append("begun"),
            commit_transaction=lambda deadline_s: self.seen.append("committed"),
        )


def test_an_open_transaction_is_over_when_what_it_withheld_is_copied_and_was_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    monkeypatch.setattr(drills, "access", lambda region: region)
    monkeypatch.setattr(drills, "send", lambda *_: None)
    for each in ("ends_of", "hold_sync", "transactional"):
        monkeypatch.setattr(drills, each, getattr(stage, each))

    held = drills.held_open(cast("Drill", stage), "one")

    assert held == (True, "readers held at 100 while the log went to 5000")
    assert stage.seen == [
        "begun",
        "a transaction is open",
        "copied to 150",
        "committed",
        "copied to 150",
        "copied to 3000",
        "copied to 5051",
        "copied to 5052",
        "what stands for it is seen",
    ]
