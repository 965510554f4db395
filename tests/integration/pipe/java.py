"""Kafka's own Java classes from Python: one virtual machine with py4j's gateway, or a main class.

py4j needs no compiler, so the same test runs where Java is only a runtime. It comes with Spark.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.java_gateway import GatewayParameters, JavaGateway

from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.offsets.homes import GroupOffset
from services.local.region import DEFAULT_KAFKA, installed
from tests.faultkit.process import RunningProcess
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from services.local.region import Region

START_S: Final = 60.0
ANSWER_S: Final = 60.0
LOG4J: Final = Path(__file__).resolve().parents[3] / "services/local/log4j2.properties"
_FORMATTERS: Final = "org.apache.kafka.connect.mirror.formatters"


def java(*jars: Path) -> list[str]:
    """The command line up to the main class."""
    program, folder = installed(DEFAULT_KAFKA)
    path = ":".join([f"{folder}/*", *map(str, jars)])
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    log = [f"-Dlog4j2.configurationFile={LOG4J}", f"-Dmirrorfleet.log={os.devnull}"]
    return [program, *quick, *log, "-cp", path]


class MirrorTools:
    """`RemoteClusterUtils` and `MirrorClient` of connect-mirror-client."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._mirror = gateway.jvm.org.apache.kafka.connect.mirror
        self._time = gateway.jvm.java.time

    def translate_offsets(
        self, region: Region, source: str, group: str
    ) -> dict[TopicPartition, GroupOffset]:
        """`RemoteClusterUtils.translateOffsets`."""
        found = self._mirror.RemoteClusterUtils.translateOffsets(
            _client(region), source, group, self._time.Duration.ofSeconds(int(ANSWER_S))
        )
        return {
            TopicPartition(entry.getKey().topic(), entry.getKey().partition()): GroupOffset(
                entry.getValue().offset(), entry.getValue().metadata()
            )
            for entry in found.entrySet()
        }

    def upstream_clusters(self, region: Region) -> set[str]:
        """`RemoteClusterUtils.upstreamClusters`."""
        return set(self._mirror.RemoteClusterUtils.upstreamClusters(_client(region)))

    def replication_hops(self, region: Region, source: str) -> int:
        """`RemoteClusterUtils.replicationHops`; -1 when it is not upstream."""
        return int(self._mirror.RemoteClusterUtils.replicationHops(_client(region), source))

    def topics(self, region: Region) -> dict[str, set[str]]:
        """What `MirrorClient` lists: heartbeats, checkpoints, remote topics."""
        client = self._mirror.MirrorClient(_client(region))
        try:
            return {
                "heartbeats": set(client.heartbeatTopics()),
                "checkpoints": set(client.checkpointTopics()),
                "remote": set(client.remoteTopics()),
            }
        finally:
            client.close()


@contextmanager
def mirror_tools(directory: Path) -> Iterator[MirrorTools]:
    """A virtual machine of the test's own; only who knows its secret may use it."""
    jar = next((Path(sys.prefix) / "share/py4j").glob("py4j*.jar"))
    command = [*java(jar), "py4j.GatewayServer", "--enable-auth", "0"]
    process = RunningProcess("java", command, log=directory / "java.log")
    try:

        def look() -> re.Match[str] | None:
            process.check_alive()
            return re.search(r"^(\d+)\n(\S+)\n", process.text(), re.MULTILINE)

        said = wait_until(look, deadline_s=START_S, what="the gateway to Java")
        assert said is not None
        gateway = JavaGateway(
            gateway_parameters=GatewayParameters(
                port=int(said[1]), auth_token=said[2], auto_convert=True
            )
        )
        try:
            yield MirrorTools(gateway)
        finally:
            gateway.close()
    finally:
        process.clean_up()


def printed(region: Region, topic: str, formatter: str, at_least: int) -> list[str]:
    """The first lines that Kafka's console consumer prints of a topic with MM2's formatter."""
    command = [*java(), "org.apache.kafka.tools.consumer.ConsoleConsumer"]
    command += ["--bootstrap-server", address(region), "--topic", topic, "--from-beginning"]
    command += ["--max-messages", str(at_least), "--timeout-ms", "30000"]
    command += ["--formatter", f"{_FORMATTERS}.{formatter}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _client(region: Region) -> dict[str, str]:
    return {"bootstrap.servers": address(region)}
