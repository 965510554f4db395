"""The one SparkSession builder.

Any master: `--master`, else what spark-submit says, else this machine. Where the jars of the Kafka
connector lie beside the project (`python -m services.install spark`) they are taken; a cluster
brings its own (spark-submit --packages).
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

PROJECT: Final = Path(__file__).resolve().parents[1]
INSTALLED: Final = PROJECT / ".local" / "spark"
SHIPPED: Final = {"mirrorfleet": PROJECT / "libs" / "mirrorfleet", "spark": PROJECT / "spark"}
"""What batch functions import on executors."""

SETTINGS: Final = {
    # Spark's pages show the options of a write; a key in PEM is no secret by its own pattern
    "spark.sql.redaction.options.regex": "(?i)url|kafka[.](ssl|sasl)[.]",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    # a record of segments or archive has up to 4 MB: 2000 of them are gigabytes, in Java and again
    # in Python; most others have less than 1 kB, and fewer in a batch would only cost calls
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 1024 * 1024),
}

LOCAL: Final = {
    # the default, 200, is a cluster's: on two cores the jobs took more than twice as long
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 2)),
}
"""On top of them, when all runs on this machine."""


def open_session(
    name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session for the job `name`."""
    _use_installed_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"mirrorfleet {name}")
    if master is None and "SPARK_ENV_LOADED" not in os.environ:
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
    here = LOCAL if master is not None and master.startswith("local") else {}
    bar = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    for key, value in {**SETTINGS, **here, **bar, **_jars(), **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if not session.sparkContext.master.startswith("local"):
        _ship(session)
    return session


def _jars() -> dict[str, str]:
    folder = Path(os.environ.get("MIRRORFLEET_SPARK_JARS", str(INSTALLED / "jars")))
    jars = sorted(str(jar) for jar in folder.glob("*.jar"))
    return {"spark.jars": ",".join(jars)} if jars else {}


def _use_installed_java() -> None:
    """The runtime that the installer prepared, when the machine has none of its own."""
    shim = INSTALLED / "java"
    if "JAVA_HOME" not in os.environ and (shim / "bin" / "java").exists():
        os.environ["JAVA_HOME"] = str(shim)


def _ship(session: SparkSession) -> None:
    archive = Path(tempfile.mkdtemp(prefix="mirrorfleet-spark-")) / "mirrorfleet.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name, folder in SHIPPED.items():
            for file in sorted(folder.rglob("*.py")):
                packed.write(file, Path(name) / file.relative_to(folder))
    session.sparkContext.addPyFile(str(archive))
