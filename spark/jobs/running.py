"""What every job does first and last: arguments, estate, session; words and exit code.

    python -m spark.jobs.slo_report --estate estate.yaml --target west [--master spark://...]

Results go to standard output, progress to standard error. Exit 0; 1 with a message when the job
could not do its work; 2 with a message when it did, and what it looked at is not intact.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mirrorfleet.config.connect import cluster_settings
from mirrorfleet.config.load import load_estate
from mirrorfleet.config.model import Estate
from mirrorfleet.core.errors import MirrorfleetError, RefusedError
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.core.names import control_topic
from mirrorfleet.records.reports import Report, encode
from mirrorfleet.records.topics import ControlKind
from spark import io, schemas
from spark.broker import Admin, Range
from spark.kafka_options import client_options
from spark.output import NOT_INTACT, reason, say
from spark.session import open_session
from spark.transforms import coding


class NotIntactError(RefusedError):
    """Raised when all the work is done and reported, and what was looked at is not intact."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster as a job reads and writes it."""

    session: SparkSession
    options: Mapping[str, str]
    admin: Admin

    def read(self, topic: str, since_ms: int | None = None) -> DataFrame:
        """All that is committed now, or what was written since a time: `RECORDS`."""
        ranges = self.admin.ranges(topic, since_ms)
        return io.read_topic(self.session, self.options, topic, ranges)

    def read_on(self, topic: str) -> DataFrame:
        """The same of a compacted topic that others write to: read on until its end stands still.

        What is replaced behind the end of before may be cleaned away while it is read. What
        replaces it was written first, so it is there by then.
        """
        begun = {number: each.start for number, each in self.admin.ranges(topic).items()}
        found = self.read(topic).limit(0)
        while left := _behind(begun, self.admin.ranges(topic)):
            more = io.read_topic(self.session, self.options, topic, left).persist()
            more.count()
            found = found.unionByName(more)
            begun |= {number: each.end for number, each in left.items()}
        return found

    def write(self, topic: str, records: DataFrame) -> None:
        """Append (partition, key, value)."""
        io.write_topic(records, self.options, topic)


def _behind(read: Mapping[int, int], now: Mapping[int, Range]) -> dict[int, Range]:
    """What is there behind what was read."""
    left = {number: Range(read.get(number, each.start), each.end) for number, each in now.items()}
    return {number: each for number, each in left.items() if each.start < each.end}


@dataclass(frozen=True, slots=True)
class Job:
    """A fleet's topics, and the session."""

    session: SparkSession
    estate: Estate
    alias: ClusterAlias
    arguments: argparse.Namespace

    @property
    def target(self) -> Cluster:
        """The fleet's own cluster."""
        return self.cluster(self.alias)

    def cluster(self, alias: str) -> Cluster:
        """Any cluster of the estate. Raises: ConfigError."""
        options = client_options(cluster_settings(self.estate, alias, "mirrorfleet-spark"))
        return Cluster(self.session, options, Admin(self.session, options))

    def topic(self, kind: ControlKind) -> str:
        """A control topic of the fleet."""
        return control_topic(self.estate.fleet_of(self.alias), kind)

    def report(self, reports: Sequence[Report]) -> None:
        """Write into the reports topic."""
        rows = [(0, *encode(report)) for report in reports]
        frame = self.session.createDataFrame(rows, "partition int, key binary, value binary")
        self.target.write(self.topic(ControlKind.REPORTS), frame)
        say(f"reports: {len(rows)} written to {self.topic(ControlKind.REPORTS)}")


def run(
    name: str,
    work: Callable[[Job], None],
    argv: Sequence[str] | None,
    options: Callable[[argparse.ArgumentParser], None] = lambda _: None,
) -> int:
    """Parse, connect, work. `options` adds the job's own arguments."""
    parser = argparse.ArgumentParser(
        prog=f"python -m spark.jobs.{name}",
        description=sys.modules[work.__module__].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--estate", type=Path, required=True, help="the estate file")
    parser.add_argument("--target", required=True, help="alias of the fleet's cluster")
    parser.add_argument("--master", help="any Spark master; this machine when not given")
    options(parser)
    arguments = parser.parse_args(argv)
    try:
        estate = load_estate(arguments.estate, os.environ)
        estate.cluster(arguments.target)
        job = Job(
            open_session(name, master=arguments.master),
            estate,
            ClusterAlias(arguments.target),
            arguments,
        )
        work(job)
    except MirrorfleetError as error:
        print(f"error: {error}", file=sys.stderr)
        return NOT_INTACT if isinstance(error, NotIntactError) else 1
    except (PySparkException, Py4JError, OSError) as error:
        print(f"error: {name}: {reason(error)}", file=sys.stderr)
        return 1
    return 0


def catalog_entries(job: Job) -> DataFrame:
    """Every partition that is or was copied: `CATALOG`."""
    catalog = job.target.read(job.topic(ControlKind.CATALOG))
    newest = catalog.groupBy("key").agg(
        F.max_by("value", "offset").alias("value"),
        F.max_by("timestamp_ms", "offset").alias("timestamp_ms"),
    )
    entries = newest.where(F.col("value").isNotNull())
    return entries.mapInArrow(coding.decode_partitions, schemas.CATALOG)


def happened(job: Job) -> DataFrame:
    """Every event that is still kept: `EVENTS`, dated by the broker as the catalog is."""
    records = job.target.read(job.topic(ControlKind.EVENTS))
    records = records.select("timestamp_ms", "timestamp_type", "value")
    return records.mapInArrow(coding.decode_events, schemas.EVENTS)


def refuse_problems(found: DataFrame) -> None:
    """Raises: RefusedError with the first of the problems."""
    for row in found.limit(1).collect():
        raise RefusedError(f"{row.problem}.", hint="Run the release that wrote it, or a newer one.")
