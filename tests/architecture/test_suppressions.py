"""A suppression names its code and says why; nothing is waved through."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

from tests.architecture.source import name, python_files

SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma)")
COMPLETE = re.compile(
    r"#\s*(noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*|type: ignore\[[a-z-]+(, ?[a-z-]+)*\])"
    r"\s+(#|-|—|:)\s*\S.{3,}"
)


def comments(path: Path) -> list[tuple[int, str]]:
    with path.open("rb") as file:
        tokens = tokenize.tokenize(file.readline)
        return [(t.start[0], t.string) for t in tokens if t.type == tokenize.COMMENT]


def incomplete(path: Path) -> list[str]:
    return [
        f"{name(path)}:{line} {text}"
        for line, text in comments(path)
        if SUPPRESSION.search(text) and not COMPLETE.search(text)
    ]


def test_every_suppression_has_a_code_and_a_reason() -> None:
    assert [found for path in python_files() for found in incomplete(path)] == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    words = re.compile(r"mark\.(skip|skipif|xfail)\b|pytest\.(skip|xfail|importorskip)\(")
    users = [
        name(path)
        for path in python_files()
        if path.parts[-2] != "architecture" and words.search(path.read_text("utf-8"))
    ]

    assert users == []
