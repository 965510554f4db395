"""The project as text: what git knows, so that nothing made or downloaded is judged."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def tracked(*patterns: str) -> tuple[Path, ...]:
    """The files that git knows or would take, and that exist."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


def python_files() -> tuple[Path, ...]:
    """Every Python file of ours."""
    return tracked("*.py")


def name(path: Path) -> str:
    """A path as messages show it."""
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a file with its length in lines, docstring off."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                first = node.body[0]
                lines -= (first.end_lineno or 0) - first.lineno + 1
            yield f"{name(path)}:{node.lineno} {node.name}", lines
