"""Jars of Maven Central, Kafka first: by `mvn` when PATH has it, else by the Ivy inside pyspark.

Neither the address of Maven Central nor any other is written here: both tools know it, or have
been told of a mirror by their own settings. A version is complete or absent, never half there.
"""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mirrorfleet.runtime.filelock import locked
from services.install.archive import archive_classes
from services.install.java import find_java, trust_options
from services.install.paths import HOME, REQUIREMENTS, InstallError
from services.install.shell import run, say

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_VERSION: Final = "4.3.0"
ARTIFACTS: Final = ("kafka_2.13", "connect-mirror", "connect-runtime", "kafka-tools")
LOG4J: Final = "2.25.4"
"""Kafka 4.x logs through SLF4J and names no binding in its poms: without this one it is silent."""

NEXT: Final = "Connect to a network (or set up a mirror in your Maven settings) and run this again."


@dataclass(frozen=True, slots=True)
class Kafka:
    """One installed version: `java` runs it with the jars of `jars` as class path."""

    version: str
    java: Path
    jars: Path


def install_kafka(version: str = DEFAULT_VERSION, home: Path = HOME) -> Kafka:
    """Find a version, and Java; download what is missing. No network is used when both are there.

    Raises: InstallError when something is missing and does not come, or `version` is none.
    """
    if not re.fullmatch(r"[34]\.\d+\.\d+", version):
        raise InstallError(
            f"kafka version {version!r} is not like 4.3.0.", hint="Known to work: 4.3.0, 3.9.1."
        )
    jars = home / "kafka" / version
    with locked(home / "kafka" / "lock"):
        java = find_java(home)
        if not jars.exists():
            with tempfile.TemporaryDirectory(dir=jars.parent, prefix=f"{version}.") as name:
                unfinished = Path(name)
                (unfinished / "jars").mkdir()
                say(f"downloading Kafka {version} (55 MB, once)")
                download(wanted_of(version), java, unfinished)
                (unfinished / "jars").rename(jars)
        archive_classes(java, jars)
    return Kafka(version, java, jars)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Jars by coordinates (group, artifact, version); `with_dependencies` takes what they need."""

    name: str
    coordinates: Sequence[tuple[str, str, str]]
    with_dependencies: bool = True


def download(wanted: Wanted, java: Path, directory: Path) -> None:
    """Put the jars into `directory`/jars, which exists; Ivy is kept in the folder above.

    Raises: InstallError when they do not come.
    """
    mvn = shutil.which("mvn")
    if mvn is not None and shutil.which("java") is not None:
        (directory / "pom.xml").write_text(pom(wanted), encoding="utf-8")
        command = [
            mvn,
            "-B",
            "-U",
            "-f",
            str(directory / "pom.xml"),
            "dependency:copy-dependencies",
        ]
        command += [f"-DoutputDirectory={directory / 'jars'}", "-DincludeScope=runtime"]
    else:
        (directory / "ivy.xml").write_text(ivy_module(wanted), encoding="utf-8")
        command = [str(java), *trust_options(directory), "-jar", str(_ivy_jar(directory.parent))]
        command += ["-ivy", str(directory / "ivy.xml"), "-cache", str(directory / "cache")]
        command += ["-types", "jar", "bundle"]
        command += ["-retrieve", f"{directory}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    run(
        command,
        what=f"{wanted.name} could not be downloaded",
        hint=NEXT,
        directory=directory,
        progress=progress,
    )


def progress(line: str) -> str | None:
    """The jar that a line of mvn's or Ivy's output says has come; Ivy's `found` lines too."""
    found = re.search(r"^Downloaded.*/([^/ ]+\.jar) \(", line.replace("[INFO] ", ""))
    found = found or re.search(r"\[SUCCESSFUL ?\] \S+!(\S+\.jar)", line)
    found = found or re.search(r"^\s*(found \S+)", line)
    return found[1] if found else None


def wanted_of(version: str) -> Wanted:
    """One Kafka."""
    binding = [("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J)]
    return Wanted(
        name=f"Kafka {version}",
        coordinates=[
            *(binding if version.startswith("4") else []),
            *(("org.apache.kafka", artifact, version) for artifact in ARTIFACTS),
        ],
    )


def pom(wanted: Wanted) -> str:
    """A pom whose runtime dependencies are what is wanted."""
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    alone = "" if wanted.with_dependencies else f"{alone}</exclusions>"
    dependencies = "\n".join(
        f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{revision}</version>{alone}</dependency>"
        for group, artifact, revision in wanted.coordinates
    )
    return f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>mirrorfleet</groupId><artifactId>local</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def ivy_module(wanted: Wanted) -> str:
    """The same as `pom`, in Ivy's words."""
    alone = "" if wanted.with_dependencies else ' transitive="false"'
    dependencies = "\n".join(
        f'    <dependency org="{group}" name="{artifact}" rev="{revision}"{alone}/>'
        for group, artifact, revision in wanted.coordinates
    )
    return f"""<ivy-module version="2.0">
  <info organisation="mirrorfleet" module="local"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->default">
{dependencies}
  </dependencies>
</ivy-module>
"""


def _ivy_jar(directory: Path) -> Path:
    """Ivy out of pyspark: the installed one, else its source archive, kept beside the versions."""
    jar = directory / "ivy.jar"
    installed = _installed_ivy()
    if jar.exists() or installed is not None:
        return installed or jar
    say("PATH has no mvn; taking Ivy out of pyspark (434 MB, once)")
    with tempfile.TemporaryDirectory(dir=directory) as name:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--retries",
            "1",
        ]
        command += ["--no-build-isolation", "--no-cache-dir", "--require-hashes", "--dest", name]
        run(
            [*command, "--requirement", str(REQUIREMENTS / "ivy.lock")],
            what="PATH has no mvn, and pyspark, which brings Ivy, could not be downloaded",
            hint=NEXT,
            directory=directory,
        )
        (archive,) = Path(name).glob("pyspark-*.tar.gz")
        with tarfile.open(archive) as packed:
            member = next(m for m in packed if re.search(r"/ivy-[\d.]+\.jar$", m.name))
            source = packed.extractfile(member)
            if source is None:
                raise InstallError(f"{archive.name} has no Ivy.", hint="Put mvn on PATH.")
            with source:
                unfinished = Path(name) / "ivy.jar"
                unfinished.write_bytes(source.read())
        unfinished.rename(jar)
    return jar


def _installed_ivy() -> Path | None:
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        return None
    return next(iter((Path(found.origin).parent / "jars").glob("ivy-*.jar")), None)
