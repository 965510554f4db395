"""Cutting long lists into pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from mirrorfleet.views.models import Page

T = TypeVar("T")

PAGE: Final = 100
"""Entries of a page, when nobody asks for another number."""
MOST: Final = 1_000
"""Entries of a page at most."""


def paged(entries: Sequence[T], number: int, size: int = PAGE) -> tuple[list[T], Page]:
    """The entries of a page, and which one it is; a number that is too high is the last page."""
    size = min(max(size, 1), MOST)
    pages = max(1, -(-len(entries) // size))
    number = min(max(number, 1), pages)
    begin = (number - 1) * size
    page = Page(number=number, pages=pages, size=size, total=len(entries))
    return list(entries[begin : begin + size]), page
