"""Bytes a second in a person's words."""

from __future__ import annotations

import pytest

from mirrorfleet.config.sizes import LEAST_THROTTLE, bytes_a_second
from mirrorfleet.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("5MB", 5_000_000),
        ("5 MiB/s", 5_242_880),
        ("40Mbit", 5_000_000),
        ("1.5mb", 1_500_000),
        (str(LEAST_THROTTLE), LEAST_THROTTLE),
    ],
)
def test_sizes_are_read_with_their_units(text: str, found: int) -> None:
    assert bytes_a_second(text) == found


@pytest.mark.parametrize("text", ["", "x", "-3", "5 parsecs", "MB"])
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match="no number of bytes a second") as caught:
        bytes_a_second(text)
    assert "5MB" in caught.value.hint


@pytest.mark.parametrize("text", ["0", str(LEAST_THROTTLE - 1), "99999999999999EB"])
def test_less_than_a_rule_may_say_is_refused_and_so_is_what_no_record_holds(text: str) -> None:
    with pytest.raises(ConfigError, match="is not from 65536 to") as caught:
        bytes_a_second(text)
    assert "pause" in caught.value.hint
