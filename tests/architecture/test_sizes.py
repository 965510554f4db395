"""Budgets: what is longer is two things in one place."""

from __future__ import annotations

import pytest

from tests.architecture.source import ROOT, functions, name, python_files, tracked

MODULE = 400
FUNCTION = 40
SERVICE = 1_000


def line_count(text: str) -> int:
    return len(text.splitlines())


def test_no_module_has_more_than_400_lines() -> None:
    sizes = {name(path): line_count(path.read_text("utf-8")) for path in python_files()}

    assert {path: lines for path, lines in sizes.items() if lines > MODULE} == {}


def test_no_function_has_more_than_40_lines() -> None:
    sizes = dict(found for path in python_files() for found in functions(path))

    assert {function: lines for function, lines in sizes.items() if lines > FUNCTION} == {}


def test_no_service_has_more_than_1000_lines() -> None:
    sizes = {
        folder.name: sum(line_count(path.read_text("utf-8")) for path in folder.rglob("*.py"))
        for folder in (ROOT / "services").iterdir()
        if folder.is_dir()
    }

    assert {folder: lines for folder, lines in sizes.items() if lines > SERVICE} == {}


@pytest.mark.parametrize(
    ("document", "ceiling"),
    [
        ("README.md", 100),
        ("ARCHITECTURE.md", 250),
        ("docs/failover.md", 100),
        ("docs/faults.md", 100),
        ("docs/guarantees.md", 100),
        ("docs/migrating.md", 100),
        ("docs/operations.md", 100),
    ],
)
def test_a_document_fits_its_page(document: str, ceiling: int) -> None:
    (path,) = tracked(document)

    assert line_count(path.read_text("utf-8")) <= ceiling
