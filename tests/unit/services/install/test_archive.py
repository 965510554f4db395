from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.install.archive import BROKER, FORMAT, archive_classes

WRITES_ONE = """#!/usr/bin/env bash
echo "$@" >> "{told}"
for option; do case $option in -XX:ArchiveClassesAtExit=*) touch "${{option#*=}}";; esac; done
"""
WITHOUT_A_BASE = '#!/usr/bin/env bash\necho "$@" >> "{told}"; exit 1\n'


def java_that(does: str, tmp_path: Path) -> tuple[Path, Path]:
    """A Java, and where it writes what it was asked."""
    java, told = tmp_path / "java", tmp_path / "told"
    java.write_text(does.format(told=told))
    java.chmod(0o755)
    return java, told


@pytest.mark.parametrize("does", [WRITES_ONE, WITHOUT_A_BASE])
def test_a_java_or_a_broker_that_fails_leaves_no_archive_and_is_tried_once(
    does: str, tmp_path: Path
) -> None:
    java, told = java_that(does, tmp_path)
    jars = tmp_path / "kafka" / "4.3.0"
    jars.mkdir(parents=True)

    archive_classes(java, jars)
    asked = told.read_text()
    archive_classes(java, jars)

    assert FORMAT in asked
    assert (BROKER in asked) == (does is WRITES_ONE)
    assert told.read_text() == asked
    os.utime(java, (1, 1))
    archive_classes(java, jars)
    assert told.read_text().count(FORMAT) == 2 * asked.count(FORMAT), "with another Java"
    assert list(jars.glob("*.jsa")) == []
    assert list(jars.parent.iterdir()) == [jars]
