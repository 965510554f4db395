"""Nothing that the first releases of Python 3.11 do otherwise than later ones; Debian has one."""

from __future__ import annotations

import ast

from tests.architecture.source import name, python_files


def raising_stars(source: str) -> list[int]:
    """Lines of `except*` that raise something: before 3.11.4 it comes in a group (gh-103590)."""
    return [
        handler.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.TryStar)
        for handler in node.handlers
        if any(isinstance(each, ast.Raise) for each in ast.walk(handler))
    ]


def test_no_error_is_raised_where_older_pythons_put_it_in_a_group() -> None:
    """`core.errors.ungrouped` does what is wanted."""
    found = [
        f"{name(path)}:{line}"
        for path in python_files()
        for line in raising_stars(path.read_text("utf-8"))
    ]

    assert found == []


def test_one_that_raises_is_found_and_one_that_does_not_is_left() -> None:
    source = "try:\n    f()\nexcept* KeyError:\n    pass\nexcept* ValueError:\n    raise g()\n"

    assert raising_stars(source) == [5]
