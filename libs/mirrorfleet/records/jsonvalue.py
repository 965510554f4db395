"""Reading JSON values of control topics by field, with typed answers.

Every value is an object with "v". Fields that this build does not know are left alone, so a
newer release may add some without a new version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from sys import intern
from typing import TypeVar

from mirrorfleet.core.errors import CorruptBatchError
from mirrorfleet.records.packing import unknown_version

_E = TypeVar("_E", bound=StrEnum)


def to_json(value: object) -> bytes:
    """Compact UTF-8; the same value gives the same bytes (keys of compacted topics rely on it)."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class Fields:
    """The fields of one JSON object; `what` names it in errors."""

    def __init__(self, values: Mapping[object, object], what: str) -> None:
        self.values = values
        self.what = what

    @classmethod
    def parse(cls, data: bytes, what: str) -> Fields:
        """Raises: CorruptBatchError when the bytes are no JSON object."""
        value = parse_json(data, what)
        if not isinstance(value, dict):
            raise CorruptBatchError(f"{what}: not a JSON object")
        return cls(value, what)

    def check_version(self, known: int) -> None:
        """Raises: UnknownVersionError when "v" is not `known`."""
        if self.values.get("v") != known:
            raise unknown_version(self.what, self.values.get("v"), known)

    def text(self, name: str) -> str:
        """A string."""
        value = self.values.get(name)
        if not isinstance(value, str):
            raise self._wrong(name, "a string")
        return value

    def word(self, name: str) -> str:
        """A string that many values share: one object for all of them."""
        return intern(self.text(name))

    def integer(self, name: str) -> int:
        """A whole number."""
        value = self.values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(name, "a whole number")
        return value

    def maybe_integer(self, name: str) -> int | None:
        """A whole number, or None when absent or null."""
        return None if self.values.get(name) is None else self.integer(name)

    def number(self, name: str) -> float:
        """A number that is one: neither NaN nor infinite."""
        value = self.values.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or value - value != 0:
            raise self._wrong(name, "a number")
        return float(value)

    def maybe_text(self, name: str) -> str | None:
        """A string, or None when absent or null."""
        return None if self.values.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        """A JSON true or false."""
        value = self.values.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._wrong(name, "a list of strings")
        return tuple(value)

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise self._wrong(name, "a list of whole numbers")
        return tuple(value)

    def choice(self, name: str, kind: type[_E]) -> _E:
        """One of an enumeration.

        Raises: UnknownVersionError for a word that only a newer build can know.
        """
        word = self.text(name)
        try:
            return kind(word)
        except ValueError:
            raise unknown_version(self.what, f"{name} {word!r}", 1) from None

    def _wrong(self, name: str, wanted: str) -> CorruptBatchError:
        return CorruptBatchError(f"{self.what}: {name} is not {wanted}")


def parse_json(data: bytes, what: str) -> object:
    """Any JSON value.

    Raises: CorruptBatchError when the bytes are no JSON.
    """
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        raise CorruptBatchError(f"{what}: not JSON") from None
    return value
