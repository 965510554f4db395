"""One region: a KRaft cluster of real brokers on 127.0.0.1, each broker a controller too.

`start_regions` makes and starts several at once. A region is described by its `RegionSpec`, kept
with the ports that were chosen in `<directory>/region.json`, from which `Region.load` finds it.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism
from mirrorfleet.core.ids import ClusterAlias
from services.local import properties
from services.local.broker import Broker, LocalError
from services.local.ports import HOST, free_ports
from services.local.security import Kind, RegionSecurity

DEFAULT_KAFKA: Final = "4.3.0"
LOG_SETTINGS: Final = {"3": "log4j.properties", "4": "log4j2.properties"}


class Tuning(StrEnum):
    """What the Java of a broker is good at."""

    QUICK = "quick"
    """Starts soon and takes little: tests."""
    STEADY = "steady"
    """As in production: load."""

    def flags(self, archive: Path) -> tuple[str, ...]:
        """For the command line of Java; an archive of classes fits the quick one alone."""
        quick = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        ready = (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()
        return (*quick, *ready) if self is Tuning.QUICK else ("-XX:+UseG1GC",)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSpec:
    """What was asked for. `port` is that of the first broker's clients; 0 takes free ones."""

    name: str
    brokers: int = 1
    kafka: str = DEFAULT_KAFKA
    port: int = 0
    security: RegionSecurity = field(default_factory=RegionSecurity)
    extra: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    tuning: Tuning = Tuning.QUICK
    heap_mb: int = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What is kept of a region. `ports`: of clients, brokers and controller, for each broker."""

    spec: RegionSpec
    ports: tuple[tuple[int, int, int], ...]
    java: str
    jars: str


_FILE: Final = TypeAdapter(Written)


def install(*arguments: str) -> str:
    """What the program says that gets things ready. Raises: LocalError; it has said why itself."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "services.install", *arguments]
    answer = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    if answer.returncode != 0:
        raise LocalError(f"{arguments[0]} could not be made ready, see above.")
    return answer.stdout


@cache
def installed(version: str) -> tuple[str, str]:
    """Java and the folder of jars for a Kafka version. Raises: LocalError."""
    found = json.loads(install("kafka", version))
    return found["java"], found["jars"]


class Region:
    """A region whose files are in `directory`. Make one with `create`, find one with `load`."""

    def __init__(self, directory: Path, written: Written) -> None:
        self.directory = directory
        self.spec = written.spec
        self.name = written.spec.name
        self.tls = directory / "tls"
        self._written = written
        self.brokers = tuple(
            Broker(number, ports[0], self._home(number), self._java("kafka.Kafka", number))
            for number, ports in enumerate(written.ports, start=1)
        )

    @classmethod
    def create(cls, spec: RegionSpec, directory: Path) -> Region:
        """Choose ports, write the files, format the data; starts nothing. Needs no region there."""
        java, jars = installed(spec.kafka)
        chosen = free_ports(3 * spec.brokers)
        first = [spec.port + n for n in range(spec.brokers)] if spec.port else chosen[::3]
        ports = tuple(zip(first, chosen[1::3], chosen[2::3], strict=True))
        region = cls(directory, Written(spec=spec, ports=ports, java=java, jars=jars))
        if spec.security.kind is not Kind.PLAINTEXT:
            install("credentials", spec.security.wanted(region.tls))
        for broker in region.brokers:
            broker.directory.mkdir(parents=True)
            text = properties.text(region.properties(broker.node_id))
            (broker.directory / "server.properties").write_text(text, encoding="utf-8")
        region._format()
        (directory / "region.json").write_bytes(_FILE.dump_json(region._written, indent=1))
        return region

    @classmethod
    def load(cls, directory: Path) -> Region:
        """The region that was made in `directory`. Raises: FileNotFoundError."""
        return cls(directory, _FILE.validate_json((directory / "region.json").read_bytes()))

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """host:port of each broker, for clients."""
        return tuple(f"{HOST}:{broker.port}" for broker in self.brokers)

    def broker(self, node_id: int) -> Broker:
        """The broker with that id, from 1."""
        return self.brokers[node_id - 1]

    def settings(
        self,
        user: str = "admin",
        mechanism: Mechanism = Mechanism.SCRAM_SHA_512,
        client_id: str = "mirrorfleet",
    ) -> ClusterSettings:
        """How a client of ours reaches it, as `user`."""
        return ClusterSettings(
            alias=ClusterAlias(self.name),
            bootstrap=self.bootstrap,
            security=self.spec.security.client(self.tls, user, mechanism),
            client_id=client_id,
        )

    def start(self) -> None:
        """Start the brokers that do not run, without waiting for them."""
        for broker in self.brokers:
            broker.start()

    def wait_ready(self) -> None:
        """Wait until each serves requests. Raises: LocalError when one does not."""
        for broker in self.brokers:
            broker.wait_ready()

    def stop(self) -> None:
        """End all of them now; a region in its last moment has nobody to be orderly for."""
        for broker in self.brokers:
            broker.kill()

    def _home(self, number: int) -> Path:
        return self.directory / f"broker-{number}"

    def _java(self, main: str, number: int) -> list[str]:
        home = self._home(number)
        logging = Path(__file__).with_name(LOG_SETTINGS[self.spec.kafka[0]])
        return [
            self._written.java,
            *(f"-X{bound}{self.spec.heap_mb}m" for bound in ("ms", "mx")),
            f"-Djava.io.tmpdir={home}",  # what it unpacks there outlives a broker that is killed
            *self.spec.tuning.flags(Path(self._written.jars, f"{main}.jsa")),
            "-cp",
            f"{self._written.jars}/*",
            f"-Dmirrorfleet.log={home / 'server.log'}",
            f"-Dlog4j2.configurationFile={logging}",
            f"-Dlog4j.configuration=file:{logging}",
            main,
            *([str(home / "server.properties")] if main == "kafka.Kafka" else []),
        ]

    def properties(self, node_id: int) -> dict[str, str]:
        """The settings of a broker."""
        clients, brokers, controller = self._written.ports[node_id - 1]
        voters = [f"{node}@{HOST}:{three[2]}" for node, three in enumerate(self._written.ports, 1)]
        advertised = f"CLIENTS://{HOST}:{clients},BROKERS://{HOST}:{brokers}"
        return {
            **properties.common(self.spec.brokers),
            "node.id": str(node_id),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"{advertised},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": advertised,
            "log.dirs": str(self._home(node_id) / "data"),
            **self.spec.security.properties(self.tls),
            **self.spec.extra,
        }

    def _format(self) -> None:
        """Format the first broker with Kafka's tool; the others differ in two ids only."""
        first = self.brokers[0].directory
        command = self._java("kafka.tools.StorageTool", 1)
        command += ["format", "--config", str(first / "server.properties")]
        command += ["--cluster-id", new_id(), *self.spec.security.scram_arguments()]
        for name, level in self.spec.features.items():
            command += ["--feature", f"{name}={level}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise LocalError(f"{first}: Kafka's format failed: {' '.join(reason)}.")
        for broker in self.brokers[1:]:
            shutil.copytree(first / "data", broker.directory / "data")
            meta = broker.directory / "data" / "meta.properties"
            text = meta.read_text(encoding="utf-8")
            text = re.sub(r"(?m)^node\.id=.*$", f"node.id={broker.node_id}", text)
            text = re.sub(r"(?m)^directory\.id=.*$", f"directory.id={new_id()}", text)
            meta.write_text(text, encoding="utf-8")


def new_id() -> str:
    """A random id as Kafka writes them; none begins with '-', which a command would misread."""
    coded = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return new_id() if coded.startswith("-") else coded


def start_regions(specs: Sequence[RegionSpec], directory: Path) -> list[Region]:
    """Make regions in folders of `directory`, start them side by side, wait until all are ready.

    Raises: LocalError when one does not start; then none is left.
    """
    for spec in specs:
        installed(spec.kafka)
    with ThreadPoolExecutor(len(specs)) as pool:
        regions = list(pool.map(lambda spec: Region.create(spec, directory / spec.name), specs))
    try:
        for region in regions:
            region.start()
        for region in regions:
            region.wait_ready()
    except BaseException:
        for region in regions:
            region.stop()
        raise
    return regions
