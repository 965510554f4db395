"""Regions whose brokers are reached through the proxy: a gate for each broker.

    with far_pair(RegionSpec(name="east", brokers=3), RegionSpec(name="west", brokers=3)) as pair:
        pair["east"].bootstrap       # the gates: for the fleet under test
        address(pair["east"].region) # the brokers themselves: for load makers and the judge

Each broker has one more listener, FAR, that it advertises with its gate's port. A client that comes
through a gate is therefore sent to gates only, and one that does not, never. The security of a
region is that of FAR; whoever comes directly needs none.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.cluster_settings import ClusterSettings
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.opening import TcpConnector, time_again
from services.local import properties
from services.local.ports import HOST, free_ports
from services.local.region import Region
from tests.faultkit.proxy import Gate, Proxy

if TYPE_CHECKING:
    from services.local.region import RegionSpec

HOME: Final = Path(__file__).resolve().parents[2] / ".local"
FAR: Final = "FAR"
START_S: Final = 180.0
"""Deadline for all brokers to be there: six of them start at once."""
ANSWER_S: Final = 20.0
"""Deadline of three answers through a slow gate."""
_LIKE: Final = "listener.name.clients."
_NEAR: Final = "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT"


class FarRegion:
    """A region and the gate of each of its brokers, by node id."""

    def __init__(self, region: Region, proxy: Proxy, extra: Mapping[str, str]) -> None:
        self.region, self.name = region, region.name
        self._proxy, self._extra = proxy, dict(extra)
        self._ports = dict(zip(self.nodes, free_ports(len(region.brokers)), strict=True))
        self.gates = {node: proxy.gate(port) for node, port in self._ports.items()}
        for node in self.nodes:
            self.configure(node)

    @property
    def nodes(self) -> list[int]:
        """Node ids."""
        return [broker.node_id for broker in self.region.brokers]

    @property
    def bootstrap(self) -> str:
        """All gates, as one text."""
        return ",".join(gate.address for gate in self.gates.values())

    def settings(self) -> ClusterSettings:
        """How a client of ours that tests ask with reaches the brokers themselves."""
        return ClusterSettings(alias=ClusterAlias(self.name), bootstrap=self.region.bootstrap)

    def configure(self, node: int, extra: Mapping[str, str] | None = None) -> None:
        """Write the settings of a broker, `extra` last; it reads them when it starts."""
        own = self.region.properties(node)
        listeners, advertised = own["listeners"], own["advertised.listeners"]
        protocol = self.region.spec.security.kind.protocol
        like = {
            f"listener.name.{FAR.lower()}.{key.removeprefix(_LIKE)}": value
            for key, value in own.items()
            if key.startswith(_LIKE)
        }
        own |= like | self._extra | dict(extra or {})
        own |= {
            "listeners": f"{listeners},{FAR}://{HOST}:{self._ports[node]}",
            "advertised.listeners": f"{advertised},{FAR}://{self.gates[node].address}",
            "listener.security.protocol.map": f"{_NEAR},{FAR}:{protocol}",
        }
        file = self.region.broker(node).directory / "server.properties"
        file.write_text(properties.text(own), encoding="utf-8")

    def move(self, node: int) -> Gate:
        """Give a broker another address; true for clients once it is restarted. The old gate.

        The old gate still works until it is told to refuse.
        """
        old = self.gates[node]
        self.gates[node] = self._proxy.gate(self._ports[node])
        self.configure(node)
        return old


def round_trip_s(far: FarRegion, gate: Gate) -> float:
    """How long the quickest of three answers takes through a gate."""

    async def ask() -> float:
        async with asyncio.timeout(ANSWER_S):
            connection = await TcpConnector(far.settings()).open(HOST, gate.port)
            try:
                await time_again(connection, ANSWER_S)
                return connection.rtt_s
            finally:
                connection.close()
                await connection.wait_closed()

    return asyncio.run(ask())


@contextmanager
def far_pair(
    *specs: RegionSpec, extra: Mapping[str, str] | None = None
) -> Iterator[dict[str, FarRegion]]:
    """Regions behind gates, ready, by name; gone afterwards. `extra`: settings of every broker."""
    HOME.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="far-", dir=HOME))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        proxy = stack.enter_context(Proxy())
        with ThreadPoolExecutor(len(specs)) as pool:
            made = list(pool.map(lambda spec: Region.create(spec, directory / spec.name), specs))
        pair = {region.name: FarRegion(region, proxy, extra or {}) for region in made}
        for region in made:
            stack.callback(region.stop)
            region.start()
        for broker in (one for region in made for one in region.brokers):
            broker.wait_ready(START_S)
        yield pair
