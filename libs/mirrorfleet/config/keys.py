"""What is said of a key that nobody knows, and of a switch where a number is wanted."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_SWITCH: Final = "should be a number, not true or false"
"""YAML's `no` and `off` would count as 0, `yes` and `on` as 1."""


def unknown_key(key: str, valid: Sequence[str]) -> str:
    """With the nearest of the `valid` ones, or all of them where none is near."""
    near = difflib.get_close_matches(key, valid, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"valid here: {', '.join(valid)}"
    return f"unknown key; {hint}"
