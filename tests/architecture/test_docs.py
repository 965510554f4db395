"""The documents name what exists: paths, `make` targets and symbols in back-ticks are looked up."""

from __future__ import annotations

import re
import shlex
from functools import cache

import pytest
import typer
from typer.core import TyperGroup

from services.cli.app import app
from tests.architecture.source import ROOT, python_files, tracked

DOCUMENTS = (
    "README.md",
    "ARCHITECTURE.md",
    "docs/failover.md",
    "docs/faults.md",
    "docs/guarantees.md",
    "docs/migrating.md",
    "docs/operations.md",
)
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


def command_lines() -> list[list[str]]:
    """Words of the commands that the README shows, as a shell reads them."""
    (readme,) = tracked("README.md")
    lines = "".join(FENCE.findall(readme.read_text("utf-8"))).splitlines()
    return [
        shlex.split(line, comments=True)
        for line in lines
        if line.startswith(("make ", "mirrorfleet "))
    ]


def test_what_the_readme_says_of_a_command_is_a_comment_for_the_shell() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    made = [words for words in command_lines() if words[0] == "make"]

    assert made
    assert [
        words for words in made if words[1] not in targets or words[2:3] not in ([], ["&&"])
    ] == []


def test_every_command_of_the_readme_is_one_that_the_command_line_takes() -> None:
    shown = [words[1:] for words in command_lines() if words[0] == "mirrorfleet"]

    assert shown
    for words in shown:
        command = typer.main.get_command(app)
        while isinstance(command, TyperGroup):
            command = command.commands[words.pop(0)]
        arguments = ["7" if word == "OFFSET" else word for word in words]
        command.make_context(command.name, arguments)


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


def test_the_map_names_each_module_that_imports_aiokafka() -> None:
    (row,) = [
        cells for cells in rows_of("ARCHITECTURE.md") if cells[0] == "`libs/mirrorfleet/kafka/`"
    ]
    importing = re.compile(r"^(?:from|import) aiokafka", re.MULTILINE)
    found = {
        path.name
        for path in tracked("libs/*.py", "services/*.py", "spark/*.py")
        if importing.search(path.read_text("utf-8"))
    }
    said = row[1].split("aiokafka only in ")[1].split(";")[0]

    assert set(QUOTED.findall(said)) == found


def test_a_path_or_symbol_that_is_not_there_is_seen() -> None:
    assert not is_known("libs/mirrorfleet/wire/no_such_module.py")
    assert not is_known("no_such_module.py")
    assert not is_known("NoSuchClassAnywhere" + "AtAll")
    assert is_known("services/local/region.py")
    assert is_known("wire/batch.py")
    assert is_known("Region.create")
