"""`make setup` with small programs in place of Python and pip."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.architecture.source import ROOT

PYTHON = """#!/bin/bash
[ "$1" = -c ] && exit 0
here="${@: -1}"
case "$*" in *--clear*) rm -rf "$here";; esac
mkdir -p "$here/bin"
[ -x "$here/bin/python" ] || printf '#!/bin/bash\\nexit PIP\\n' > "$here/bin/python"
chmod +x "$here/bin/python"
exit PIP
"""
"""Makes an environment as `venv` does: its python is there even when pip could not be put in."""


def setup(folder: Path, *, pip: bool) -> subprocess.CompletedProcess[str]:
    """Run it in a project of its own, with a Python that has what puts pip in, or has it not."""
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "requirements").mkdir(exist_ok=True)
    (folder / "requirements/dev.lock").touch()
    (folder / "pyproject.toml").touch()
    python = folder / "python"
    python.write_text(PYTHON.replace("PIP", "0" if pip else "1"))
    python.chmod(0o755)
    return subprocess.run(
        ["make", "setup", f"PYTHON={python}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_an_environment_without_pip_is_refused_by_name_and_made_anew_the_next_time(
    tmp_path: Path,
) -> None:
    refused = [setup(tmp_path, pip=False) for _ in range(2)]
    assert (tmp_path / ".venv/bin/python").exists()

    mended = setup(tmp_path, pip=True)

    assert [each.returncode for each in refused] == [2, 2]
    assert all("on Debian it needs python3-venv" in each.stderr for each in refused)
    assert mended.returncode == 0, mended.stderr


def test_an_environment_that_has_pip_is_kept(tmp_path: Path) -> None:
    assert setup(tmp_path, pip=True).returncode == 0
    kept = tmp_path / ".venv/kept"
    kept.touch()
    (tmp_path / ".venv/.ready").unlink()

    assert setup(tmp_path, pip=True).returncode == 0
    assert kept.exists()
