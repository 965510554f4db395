"""Who may import whom; the contracts are in pyproject.toml."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.architecture.source import ROOT, name


def test_every_import_contract_is_kept() -> None:
    # the linter's cache goes by modification time and keeps old verdicts
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_every_package_of_the_library_is_in_the_layers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = " ".join(layer for contract in contracts for layer in contract.get("layers", []))
    packages = {path.parent.name for path in (ROOT / "libs/mirrorfleet").glob("*/__init__.py")}

    assert packages - set(re.findall(r"mirrorfleet\.(\w+)", layers)) == set()


def test_the_library_has_no_tests_and_tests_are_imported_by_nothing() -> None:
    users = [
        name(path)
        for folder in ("libs", "services", "spark")
        for path in (ROOT / folder).rglob("*.py")
        if "from tests" in path.read_text("utf-8") or "import tests" in path.read_text("utf-8")
    ]

    assert users == []
