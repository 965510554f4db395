"""Every test is run by a target of the Makefile, in each of its forms."""

from __future__ import annotations

import re

from tests.architecture.source import ROOT, name, tracked


def is_run(file: str, makefile: str, *, is_long: bool = False) -> bool:
    """Whether a target runs the tests of a file; long ones only a target that leaves none out."""
    text = makefile.replace("\\\n", "")
    for variable, value in re.findall(r"^([A-Z]+) := (.*)$", text, re.MULTILINE):
        text = text.replace(f"$({variable})", value)
    apart = re.findall(r"tests/[\w/]+", *re.findall(r"^APART := .*$", text, re.MULTILINE))
    for command in re.findall(r"-m pytest .*$", text, re.MULTILINE):
        named = re.findall(r"(?<![=/])\btests\b[\w/]*", command)
        ignored = apart if "$(APART" in command else []
        if is_long and "not long" in command:
            continue
        if is_in(file, named) and not is_in(file, ignored):
            return True
    return False


def is_in(file: str, folders: list[str]) -> bool:
    return any(file.startswith(f"{folder}/") for folder in folders)


def has_long_tests(file: str) -> bool:
    """Whether some of its tests have only a long form."""
    return "pytest.mark.long" in (ROOT / file).read_text("utf-8")


def test_every_test_is_run_by_a_target_and_a_long_one_by_one_that_runs_long_ones() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    files = [name(path) for path in tracked("tests/**/test_*.py")]

    assert len(files) > 100
    assert [file for file in files if not is_run(file, makefile)] == []
    long = [file for file in files if has_long_tests(file)]
    assert [file for file in long if not is_run(file, makefile, is_long=True)] == []


MAKEFILE = """ALONE := tests/one
APART := $(ALONE) tests/two/three \\
\ttests/four
all:
\t@$(PY) -m pytest tests $(APART:%=--ignore=%) -q
short:
\t@$(PY) -m pytest $(ALONE) tests/four -m 'not long' \\
\t\t--durations=10
long:
\t@$(PY) -m pytest tests/five \\
\t\ttests/four
"""


def test_a_test_that_no_target_runs_is_seen() -> None:
    assert is_run("tests/one/test_a.py", MAKEFILE)
    assert not is_run("tests/two/three/test_a.py", MAKEFILE)
    assert is_run("tests/two/test_a.py", MAKEFILE)


def test_a_long_test_that_only_short_targets_run_is_seen() -> None:
    assert not is_run("tests/one/test_a.py", MAKEFILE, is_long=True)
    assert is_run("tests/two/test_a.py", MAKEFILE, is_long=True)
    assert is_run("tests/four/test_a.py", MAKEFILE, is_long=True)
