"""Spark's Kafka connector, and a Java that Spark can start with.

.local/spark/jars/    what pyspark lacks to read and write Kafka
.local/spark/java/    JAVA_HOME of a runtime without the incubator's vector module

Only these four jars: the rest that the connector's pom asks for is inside pyspark, in its own
versions, and a second copy of it would win or lose by the order of a class path.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mirrorfleet.runtime.filelock import locked
from services.install.jars import Wanted, download
from services.install.java import find_java
from services.install.paths import HOME
from services.install.shell import say

CONNECTOR: Final = Wanted(
    name="Spark's Kafka connector",
    coordinates=(
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.kafka", "kafka-clients", "3.9.0"),
        ("org.apache.commons", "commons-pool2", "2.12.0"),
    ),
    with_dependencies=False,
)
VECTOR: Final = "jdk.incubator.vector"
"""Spark asks for this module when it starts; a trimmed runtime has none and refuses to start."""


@dataclass(frozen=True, slots=True)
class Spark:
    """What a session needs beside pyspark. `java_home` is for JAVA_HOME."""

    java_home: Path
    jars: Path


def install_spark(home: Path = HOME) -> Spark:
    """Find both, or install them under `home`; no network is used when they are there.

    Raises: InstallError when something is missing and does not come.
    """
    jars = home / "spark" / "jars"
    with locked(home / "spark" / "lock"):
        java = find_java(home)
        if not jars.exists():
            with tempfile.TemporaryDirectory(dir=jars.parent, prefix="jars.") as name:
                (Path(name) / "jars").mkdir()
                say("downloading Spark's Kafka connector (10 MB, once)")
                download(CONNECTOR, java, Path(name))
                (Path(name) / "jars").rename(jars)
        return Spark(java_home(java, home / "spark" / "java"), jars)


def java_home(java: Path, shim: Path) -> Path:
    """The home of `java`, or a folder that starts it without the module that it lacks."""
    if has_vector_module(java):
        return java.resolve().parents[1]
    start = shim / "bin" / "java"
    if not start.exists():
        shutil.rmtree(shim, ignore_errors=True)
        start.parent.mkdir(parents=True)
        start.write_text(shim_script(java), encoding="utf-8")
        start.chmod(0o755)
    return shim


def has_vector_module(java: Path) -> bool:
    """Whether this runtime brings the module."""
    listed = subprocess.run(
        [str(java), "--list-modules"], capture_output=True, text=True, timeout=60, check=False
    )
    return VECTOR in listed.stdout


def shim_script(java: Path) -> str:
    """A `java` that drops the one option."""
    return f"""#!/usr/bin/env bash
for option; do shift; [ "$option" = --add-modules={VECTOR} ] || set -- "$@" "$option"; done
exec '{java.absolute()}' "$@"
"""
