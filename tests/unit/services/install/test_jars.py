from __future__ import annotations

import xml.etree.ElementTree as ET
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from services.install import jars
from services.install.jars import install_kafka, ivy_module, pom, progress, wanted_of
from services.install.paths import InstallError
from services.install.shell import reason

KAFKA = ["kafka_2.13", "connect-mirror", "connect-runtime", "kafka-tools"]


def test_a_pom_names_kafka_and_for_4_x_a_logging_binding() -> None:
    new = [each.text for each in ET.fromstring(pom(wanted_of("4.3.0"))).iter("artifactId")]
    old = [each.text for each in ET.fromstring(pom(wanted_of("3.9.1"))).iter("artifactId")]

    assert new == ["local", "log4j-slf4j-impl", *KAFKA]
    assert old == ["local", *KAFKA]


def test_ivy_is_told_the_same_as_maven() -> None:
    wanted = [
        (each.get("org"), each.get("name"), each.get("rev"))
        for each in ET.fromstring(ivy_module(wanted_of("3.9.1"))).iter("dependency")
    ]

    assert wanted == [("org.apache.kafka", name, "3.9.1") for name in KAFKA]


def test_ivy_comes_out_of_an_installed_pyspark_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ivy = tmp_path / "pyspark" / "jars" / "ivy-2.5.3.jar"
    ivy.parent.mkdir(parents=True)
    ivy.touch()
    installed = ModuleSpec("pyspark", None, origin=str(tmp_path / "pyspark" / "__init__.py"))
    monkeypatch.setattr(jars, "find_spec", {"pyspark": installed}.get)

    assert jars._ivy_jar(tmp_path) == ivy


@pytest.mark.parametrize("version", ["4.3", "2.8.0", "latest", "../4.3.0", ""])
def test_a_version_that_is_none_is_refused_before_anything_is_done(version: str) -> None:
    with pytest.raises(InstallError, match=r"is not like 4\.3\.0"):
        install_kafka(version)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("[INFO] Downloaded from central: x://y/a/b-1.0.jar (3 kB at 9 kB/s)", "b-1.0.jar"),
        ("[INFO] Downloaded from central: x://y/a/b-1.0.pom (3 kB at 9 kB/s)", None),
        ("\t[SUCCESSFUL ] org.x#b;1.0!b.jar (93ms)", "b.jar"),
        ("\tfound org.x#b;1.0 in public", "found org.x#b;1.0"),
        ("[INFO] BUILD SUCCESS", None),
    ],
)
def test_progress_is_read_from_what_both_tools_print(line: str, step: str | None) -> None:
    assert progress(line) == step


def test_the_systems_own_word_is_the_reason() -> None:
    lines = ["WARNING: Retrying (x: [Errno -3] Temporary failure in name resolution'))", "ERROR: y"]

    assert reason(lines) == "[Errno -3] Temporary failure in name resolution"


def test_else_the_first_line_that_speaks_of_an_error_is_the_reason() -> None:
    assert reason(["", "hello", "[ERROR] no such artifact.", "bye"]) == "[ERROR] no such artifact"
    assert reason(["hello", "bye"]) == "hello"
    assert reason([]) == "it said nothing"
