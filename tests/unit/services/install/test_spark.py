from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from services.install.jars import ivy_module, pom
from services.install.spark import CONNECTOR, java_home, shim_script


def fake_java(path: Path, modules: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\n[ "$1" = --list-modules ] && echo {modules} || echo "$@"\n')
    path.chmod(0o755)
    return path


def test_the_connector_brings_nothing_that_pyspark_has() -> None:
    wanted = [(each.get("name"), each.get("transitive")) for each in dependencies()]

    assert wanted == [
        ("spark-sql-kafka-0-10_2.13", "false"),
        ("spark-token-provider-kafka-0-10_2.13", "false"),
        ("kafka-clients", "false"),
        ("commons-pool2", "false"),
    ]
    assert pom(CONNECTOR).count("<artifactId>*</artifactId>") == 4


def dependencies() -> list[ET.Element]:
    return list(ET.fromstring(ivy_module(CONNECTOR)).iter("dependency"))


def test_a_runtime_without_the_vector_module_is_started_without_asking_for_it(
    tmp_path: Path,
) -> None:
    java = fake_java(tmp_path / "jre" / "bin" / "java", "java.base@21.0.8")

    home = java_home(java, tmp_path / "shim")

    options = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    said = subprocess.run(
        [home / "bin" / "java", *options], capture_output=True, text=True, check=True
    )
    assert home == tmp_path / "shim"
    assert said.stdout == "-Xmx1g -cp a b Main\n"


def test_a_runtime_with_the_module_is_used_as_it_is(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jdk" / "bin" / "java", "jdk.incubator.vector@17.0.15")

    assert java_home(java, tmp_path / "shim") == tmp_path / "jdk"


def test_the_shim_finds_its_runtime_from_anywhere() -> None:
    assert f"exec '{Path('jre/bin/java').absolute()}'" in shim_script(Path("jre/bin/java"))
