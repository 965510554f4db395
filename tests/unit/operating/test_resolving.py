"""What an operator may say to `resolve`: one way out, and a range that is one."""

from __future__ import annotations

import pytest

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.operating.resolving import Wish, wish_of
from mirrorfleet.records.commands import Action


@pytest.mark.parametrize(
    ("accept_gap", "seek", "skip", "wish"),
    [
        ("100..150", None, False, Wish(Action.ACCEPT_GAP, 100, 150)),
        ("7..7", None, False, Wish(Action.ACCEPT_GAP, 7, 7)),
        (None, 0, False, Wish(Action.SEEK, end=0)),
        (None, None, True, Wish(Action.SKIP)),
    ],
)
def test_each_way_out_is_one_wish(
    *, accept_gap: str | None, seek: int | None, skip: bool, wish: Wish
) -> None:
    assert wish_of(accept_gap, seek, skip=skip) == wish


@pytest.mark.parametrize(
    ("accept_gap", "seek", "skip"),
    [(None, None, False), ("1..2", 3, False), ("1..2", None, True), (None, 0, True)],
)
def test_two_ways_out_or_none_are_refused(
    *, accept_gap: str | None, seek: int | None, skip: bool
) -> None:
    with pytest.raises(ConfigError, match="one way out is wanted"):
        wish_of(accept_gap, seek, skip=skip)


@pytest.mark.parametrize("text", ["150..100", "1.2", "..5", "-1..5", "1..", "a..b", ""])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no range of offsets"):
        wish_of(text, None, skip=False)
