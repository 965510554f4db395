"""The documents name what exists: paths, `make` targets and symbols in back-ticks are looked up."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.architecture.source import ROOT, python_files, tracked

DOCUMENTS = ("README.md", "ARCHITECTURE.md", "docs/guarantees.md")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.*{},-]+(?:/[\w.*{},-]*)+|\w+\.(?:py|md|toml|yml|yaml|lock)")
SYMBOL = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(\))?")
TARGET = re.compile(r"make ([a-z][a-z-]*)")
MADE = (".local/", ".venv/")
"""Folders that exist only after a command has made them."""


@cache
def words() -> frozenset[str]:
    """Every word of our source, and of what configures it."""
    texts = [path.read_text("utf-8") for path in python_files()]
    texts += [(ROOT / other).read_text("utf-8") for other in ("pyproject.toml", "Makefile")]
    texts += [path.read_text("utf-8") for path in tracked("deploy/*", "docker-compose.yml")]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


@cache
def known_paths() -> frozenset[str]:
    """Every file and folder, as written from the root, from the library and from the packages."""
    found: set[str] = set()
    for path in tracked():
        parts = [path.relative_to(ROOT), *path.relative_to(ROOT).parents]
        found |= {str(part) for part in parts}
    short = {path.removeprefix("libs/").removeprefix("mirrorfleet/") for path in found}
    return frozenset(found | short | {path.removeprefix("libs/") for path in found})


def path_exists(text: str) -> bool:
    if text.startswith(MADE):
        return True
    wanted = text.rstrip("/")
    if "*" in wanted:
        return any(ROOT.glob(wanted)) or any((ROOT / "libs/mirrorfleet").glob(wanted))
    return wanted in known_paths() or any(path.endswith(f"/{wanted}") for path in known_paths())


def is_known(text: str) -> bool:
    """Whether a quoted text is there; one that is neither path nor symbol is prose or a command."""
    if PATH.fullmatch(text):
        return path_exists(text)
    if SYMBOL.fullmatch(text):
        return all(part in words() for part in text.removesuffix("()").split("."))
    return True


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_and_symbol_in_back_ticks_exists(document: str) -> None:
    (path,) = tracked(document)
    quoted = QUOTED.findall(FENCE.sub("", path.read_text("utf-8")))

    assert [text for text in quoted if not is_known(text)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_make_target_that_is_named_exists(document: str) -> None:
    (path,) = tracked(document)
    text = path.read_text("utf-8")
    code = [*QUOTED.findall(FENCE.sub("", text)), *FENCE.findall(text)]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

    assert {word for part in code for word in TARGET.findall(part)} - targets == set()


def rows_of(document: str) -> list[list[str]]:
    """Cells of every table row below a heading row."""
    (path,) = tracked(document)
    lines = [line for line in path.read_text("utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = [number for number, row in enumerate(cells) if set(row) == {"---"}]
    return [row for n, row in enumerate(cells) if not {n, n + 1} & set(rules)]


def names_of_tests() -> set[str]:
    return {
        name
        for path in tracked("tests/*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text("utf-8"))
    }


def test_every_guarantee_names_tests_that_are_there() -> None:
    shown = {row[0]: QUOTED.findall(row[-1]) for row in rows_of("docs/guarantees.md")}

    assert shown
    assert [what for what, names in shown.items() if not names] == []
    named = {name for names in shown.values() for name in names}
    assert named - names_of_tests() == set()


def test_a_path_or_symbol_that_is_not_there_is_seen() -> None:
    assert not is_known("libs/mirrorfleet/wire/no_such_module.py")
    assert not is_known("no_such_module.py")
    assert not is_known("NoSuchClassAnywhere" + "AtAll")
    assert is_known("services/local/region.py")
    assert is_known("wire/batch.py")
    assert is_known("Region.create")
