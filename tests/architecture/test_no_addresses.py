"""Where packages come from is the machine's business, and no path of one machine is in the tree."""

from __future__ import annotations

import re

from tests.architecture.source import name, tracked

REGISTRY = re.compile(
    r"--(?:extra-)?index-url|--find-links|/simple/|/maven2|repo1?\.maven|pypi\.org|pythonhosted"
    r"|proxy\.golang|registry\.(?:npmjs|hub)",
)
HOME = re.compile(r"/(?:root|home/[a-z]+|Users/[A-Za-z]+)/")
ALLOWED = {"tests/architecture/test_no_addresses.py"}


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    found: list[str] = []
    for path in tracked():
        if name(path) in ALLOWED or b"\0" in path.read_bytes()[:8192]:
            continue
        lines = path.read_text("utf-8", "replace").splitlines()
        found += [f"{name(path)}:{n}" for n, line in enumerate(lines, 1) if pattern.search(line)]
    return found


def test_no_file_names_a_package_registry() -> None:
    assert lines_with(REGISTRY) == []


def test_no_file_has_a_path_into_a_home_folder() -> None:
    assert lines_with(HOME) == []


def test_every_package_is_locked_by_a_hash() -> None:
    locks = tracked("requirements/*.lock")

    assert {path.name for path in locks} == {
        "base.lock",
        "dev.lock",
        "ivy.lock",
        "jre.lock",
        "spark.lock",
    }
    for path in locks:
        for package in re.split(r"\n(?=\S)", path.read_text("utf-8")):
            assert package.startswith("#") or "--hash=sha256:" in package, package[:80]
