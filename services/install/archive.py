"""Class data archives: with them Java starts a broker in little more than half of the time.

    <home>/kafka/<version>/kafka.Kafka.jsa  kafka.tools.StorageTool.jsa  archived

Java writes down which classes a throw-away broker had loaded, and reads them back ready-made
(JEP 350). An archive fits one Java, one garbage collector and one class path in its order. Where it
does not fit, Java ignores it and says so; where Java cannot make one, there is none, and `archived`
says with which Java it was tried. So nothing but time depends on an archive.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from services.install.shell import say

FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")
"""As local regions start their brokers: another collector would not take the archive."""
BROKER: Final = "kafka.Kafka"
FORMAT: Final = "kafka.tools.StorageTool"
TRIED: Final = "archived"
HOST: Final = "127.0.0.1"
CLUSTER: Final = ("--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg")
DEADLINE_S: Final = 60.0
PAUSE_S: Final = 0.1
API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
"""Length, key, version 0, correlation id, no client id: what a broker answers to anybody."""


def archive_classes(java: Path, jars: Path) -> None:
    """Make both archives of a version, unless that was done, or tried, with this very Java."""
    program, tried = java.resolve(), jars / TRIED
    which = f"{program} {program.stat().st_mtime_ns}"
    if tried.exists() and tried.read_text("utf-8") == which:
        return
    say(f"archiving the classes of Kafka {jars.name} (once)")
    with (
        suppress(OSError, subprocess.SubprocessError),  # the regions will say what is wrong
        tempfile.TemporaryDirectory(dir=jars.parent, prefix=f"{jars.name}.") as name,
    ):
        _run_once(java, jars, Path(name))
        for main in (FORMAT, BROKER):
            (Path(name) / f"{main}.jsa").replace(jars / f"{main}.jsa")
    with suppress(OSError):
        tried.write_text(which, "utf-8")


def _run_once(java: Path, jars: Path, directory: Path) -> None:
    """Format and start a broker, stop it when it answers; its archives are in `directory`."""
    clients, controller = _two_ports()
    settings = directory / "server.properties"
    settings.write_text(properties(directory / "data", clients, controller), encoding="utf-8")
    subprocess.run(
        [*command(java, jars, directory, FORMAT), "format", *CLUSTER, "--config", str(settings)],
        check=True,
        capture_output=True,
        timeout=DEADLINE_S,
    )
    broker = subprocess.Popen(
        [*command(java, jars, directory, BROKER), str(settings)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_answer(broker, clients)
        broker.terminate()
        broker.wait(DEADLINE_S)
    finally:
        broker.kill()
        broker.wait()


def _two_ports() -> tuple[int, int]:
    with socket.create_server((HOST, 0)) as one, socket.create_server((HOST, 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _wait_answer(broker: subprocess.Popen[bytes], port: int) -> None:
    """Until it serves requests. Raises: OSError when it ends before, or takes too long."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end and broker.poll() is None:
        with (
            suppress(ConnectionError),
            socket.create_connection((HOST, port), DEADLINE_S) as connection,
        ):
            connection.sendall(API_VERSIONS)
            if connection.recv(4):
                return
        time.sleep(PAUSE_S)
    raise OSError("the broker does not answer")


def command(java: Path, jars: Path, directory: Path, main: str) -> list[str]:
    """Runs a class of Kafka, and writes its archive when it ends."""
    written = f"-XX:ArchiveClassesAtExit={directory / main}.jsa"
    return [str(java), *FLAGS, written, "-cp", f"{jars}/*", main]


def properties(data: Path, clients: int, controller: int) -> str:
    """The settings of the throw-away broker."""
    return f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{HOST}:{controller}
listeners=PLAINTEXT://{HOST}:{clients},CONTROLLER://{HOST}:{controller}
controller.listener.names=CONTROLLER
offsets.topic.replication.factor=1
log.dirs={data}
"""
