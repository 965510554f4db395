"""Java's properties files, as MirrorMaker 2 is configured with (java.util.Properties.load)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_ENDS: Final = re.compile(r"\r\n|\r|\n")
"""No other character ends a line: what stands behind one may be a part of a secret."""
_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPLIT: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def properties(text: str) -> dict[str, str]:
    """Keys and values; of a key that stands twice the last one."""
    found: dict[str, str] = {}
    for line in _lines(text):
        split = _SPLIT.fullmatch(line)
        if split is not None and split[1]:
            found[_plain(split[1])] = _plain(split[2]).rstrip()
    return found


def _lines(text: str) -> Iterator[str]:
    """Logical ones: one that ends in an odd number of backslashes goes on in the next."""
    begun = ""
    for raw in _ENDS.split(text):
        line = raw.lstrip(" \t\f")
        if not begun and line[:1] in {"", "#", "!"}:
            continue
        begun += line
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
        else:
            yield begun
            begun = ""
    if begun:
        yield begun


def _plain(text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        said = found[1]
        return chr(int(said[1:], 16)) if len(said) == len("uFFFF") else _LETTERS.get(said, said)

    return _ESCAPED.sub(letter, text)
