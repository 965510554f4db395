"""Patterns over names: whole-name match as MM2, in Java's regex dialect.

A list of patterns matches a name when one of them matches all of it; `exclude` wins over the
include list; `never` wins over everything. Java's notation is translated where Python has the
same meaning under another spelling, and refused where it has none: a pattern never silently means
something else.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mirrorfleet.core.errors import ConfigError

_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "L": "a-zA-Z",
    "N": "0-9",
}
_LITERAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_PLAIN: Final = re.compile(r"[a-zA-Z0-9_-]")
_TOKEN: Final = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|$)
      | \\p\{(?:Is|javaLetter)?(?P<posix>\w+)\}
      | \\k<(?P<reference>\w+)>
      | (?P<group>\(\?<(?=[a-zA-Z]))
      | (?P<escape>\\.)
      | (?P<intersection>&&)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A whole-name matcher (use `fullmatch`) for a pattern in Java's dialect.

    Raises: ConfigError when it is not one, or means something that Python cannot say.
    """
    if not pattern:
        raise ConfigError("the pattern is empty and would match no topic.")
    with warnings.catch_warnings():
        # Python warns where a set looks nested or intersected: Java means that, Python does not.
        warnings.simplefilter("error", FutureWarning)
        try:
            return re.compile(_translate(pattern), re.ASCII)
        except (re.error, FutureWarning, RecursionError, OverflowError) as error:
            raise ConfigError(f"{pattern!r} is not a usable pattern: {error}.") from None


def is_literal(pattern: str) -> bool:
    """Whether the pattern is written like a name, without anything special but '.'."""
    return _LITERAL.fullmatch(pattern) is not None


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Names that one of `include` matches and none of `exclude`.

    Raises: ConfigError on construction when a pattern is not usable.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    _include: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)
    _exclude: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_include", tuple(map(compile_pattern, self.include)))
        object.__setattr__(self, "_exclude", tuple(map(compile_pattern, self.exclude)))

    def matches(self, name: str) -> bool:
        """Whether the whole name is taken; an empty include list takes nothing, as MM2."""
        return matches_any(self._include, name) and not matches_any(self._exclude, name)

    def literals(self) -> tuple[str, ...]:
        """The include patterns that are plain names and are not excluded again."""
        return tuple(name for name in self.include if is_literal(name) and self.matches(name))


def matches_any(patterns: Sequence[re.Pattern[str]], name: str) -> bool:
    """Whether one of the patterns matches the whole name."""
    return any(pattern.fullmatch(name) for pattern in patterns)


def literal_prefix(pattern: str) -> tuple[str, bool]:
    """(what each matching name begins with, whether that is the whole name).

    For access control, which knows names and prefixes only: a pattern written like a name is one.
    """
    if is_literal(pattern):
        return pattern, True
    prefix: list[str] = []
    at = 0
    while at < len(pattern):
        step = 2 if pattern[at] == "\\" and at + 1 < len(pattern) else 1
        char = pattern[at + step - 1]
        plain = not char.isalnum() if step == 2 else _PLAIN.fullmatch(char) is not None
        optional = pattern[at + step : at + step + 1] in {"*", "?", "{"}
        if not plain or optional:
            break
        prefix.append(char)
        at += step
    # One alternative says nothing about the others.
    return ("" if "|" in pattern else "".join(prefix)), False


def _translate(pattern: str) -> str:
    out: list[str] = []
    in_set = False
    for token in _TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token.group()
        if kind == "quoted":
            out.append(re.escape(token["quoted"]))
        elif kind == "posix":
            characters = _posix(token["posix"])
            out.append(characters if in_set else f"[{characters}]")
        elif kind == "reference":
            out.append(f"(?P={token['reference']})")
        elif kind == "group":
            out.append("(?P<")
        elif text == r"\z":
            out.append(r"\Z")
        elif kind == "intersection" and in_set:
            raise re.error("set intersection (&&) is Java's; write the set out")
        elif text == "[" and in_set:
            raise re.error("a set inside a set is Java's; write the set out")
        else:
            in_set = text == "[" or (in_set and text != "]")
            out.append(text)
    return "".join(out)


def _posix(name: str) -> str:
    if name not in _POSIX:
        raise re.error(rf"\p{{{name}}} is not known; write the characters out")
    return _POSIX[name]
