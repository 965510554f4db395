"""How many workers, slots, connections and how much network a rate of records takes. Pure.

    seconds of a core for a batch = stored bytes * byte_s + min(batch_s, records * record_s)

A batch that goes as it is costs the same whatever is in it; small ones are joined, and then it is
their records that cost. The three constants are measured (`bench --calibrate`), for one machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from mirrorfleet.core.errors import ConfigError

_FULL_BYTES: Final = 65_536
_RECORD_BYTES: Final = 1_000
_SMALL_BYTES: Final = 100
_GIGABYTE: Final = 1_000_000_000
_LEAST_BYTE_S: Final = 0.1e-9
SLOTS_A_WORKER: Final = 4
"""So that load can be shared by bytes, and a worker that is added finds some to take."""
WORKER_MB: Final = 200
"""The most that one held in hours of faults; 150 with a hundred partitions or fewer."""
NEAR_MS: Final = 20.0
"""What a copy takes next door, half of the records sooner."""
FAR_SHARE: Final = 0.6
"""Of what a round trip could bring, at 100 ms: 222 of 373 MB/s by memory, 160 of 288 by windows."""
TLS_S: Final = (1.1e-9, 0.8e-9, 1.2e-9)
"""What TLS on both sides adds for a byte in the copier, the source's and the target's brokers: the
difference of two runs of docs/performance.md."""
FAR_MS: Final = 5.0
"""From this round trip on partitions are fetched over several connections."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of a core of a copier, and of all brokers of a side, with one replica, for a byte.

    The defaults are those of docs/performance.md, two cores of an AMD EPYC.
    """

    byte_s: float = 0.7e-9
    batch_s: float = 52e-6
    record_s: float = 2.9e-6
    source_byte_s: float = 0.5e-9
    target_byte_s: float = 2.1e-9

    def under_tls(self) -> Figures:
        """The same with TLS on both sides."""
        copier, source, target = TLS_S
        return replace(
            self,
            byte_s=self.byte_s + copier,
            source_byte_s=self.source_byte_s + source,
            target_byte_s=self.target_byte_s + target,
        )


@dataclass(frozen=True, slots=True)
class Shape:
    """Records as stored, so compressed. `batch_records` 0: as many as a full batch holds."""

    partitions: int
    record_bytes: float = 1_000
    batch_records: float = 0.0

    @property
    def a_batch(self) -> float:
        """Records of a batch."""
        return self.batch_records or max(1.0, _FULL_BYTES / self.record_bytes)


@dataclass(frozen=True, slots=True)
class Way:
    """From the source. No `window_bytes`: unlimited; no `gbit_s`: nobody knows what it can do."""

    rtt_ms: float = 0.0
    window_bytes: int | None = None
    brokers: int = 3
    gbit_s: float | None = None
    hops: int = 1

    @property
    def is_far(self) -> bool:
        """Whether partitions are fetched over several connections."""
        return self.rtt_ms >= FAR_MS

    @property
    def rtt_s(self) -> float:
        """The round trip in seconds."""
        return self.rtt_ms / 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be copied, and how late it may come; `headroom` times the rate, so that what waits
    after an outage is caught up. `tls`: on both sides.
    """

    records_s: float
    shape: Shape
    way: Way
    lag_s: float = 60.0
    headroom: float = 1.5
    tls: bool = False

    @property
    def bytes_s(self) -> float:
        """With headroom."""
        return self.records_s * self.headroom * self.shape.record_bytes


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that is needed. `used` is the part of what it can do that this load takes: more
    than 1 cannot be had; None where nothing limits it.
    """

    what: str
    amount: str
    words: str
    used: float | None = None

    def row(self) -> dict[str, object]:
        """For people and JSON."""
        used = None if self.used is None else round(self.used, 2)
        return {"what": self.what, "amount": self.amount, "used": used, "words": self.words}


def figures_of(calibration: Mapping[str, Mapping[str, float]]) -> Figures:
    """From what `bench --calibrate` has written.

    Raises: ConfigError when a workload or a figure is missing.
    """
    try:
        full, small = calibration["1k-plain"], calibration["100b-lz4"]
        batch_s = _FULL_BYTES / _SMALL_BYTES / small["records_per_core_s"]
        byte_s = 1e-6 / full["mb_per_core_s"] - batch_s / _FULL_BYTES
        byte_s = max(byte_s, _LEAST_BYTE_S)
        single_s = 1 / calibration["single"]["records_per_core_s"]
        record_s = max(single_s - _RECORD_BYTES * byte_s, single_s / 2)
        source_s, target_s = full["source_core_s_per_mb"], full["target_core_s_per_mb"]
    except (KeyError, TypeError, ZeroDivisionError) as error:
        raise ConfigError(
            f"this is no calibration: {error!r} is missing or no figure.",
            path="--calibration",
            hint="Make one: make bench BENCH=--calibrate writes .local/bench/calibration.json.",
        ) from None
    return Figures(byte_s, batch_s, record_s, source_s / 1e6, target_s / 1e6)


def sized(wanted: Wanted, figures: Figures, *, memory_bytes: int, connections: int) -> list[Need]:
    """What it takes, by `figures` without TLS. `memory_bytes` and `connections` are a worker's:
    what it may have asked for, and how many connections to a broker.
    """
    if wanted.tls:
        figures = figures.under_tls()
    record_s = _record_s(wanted, figures)
    limits = _worker_limits(wanted, record_s, memory_bytes, connections)
    limit, most = min(limits.items(), key=lambda one: one[1])
    workers = max(1, ceil(wanted.bytes_s / most))
    slots = min(wanted.shape.partitions, max(SLOTS_A_WORKER * workers, 8))
    cores = wanted.records_s * wanted.headroom * record_s
    words = f"{most / 1e6:,.0f} MB/s each, as much as {limit}; {cores:.1f} cores in all"
    return [
        Need("workers", str(workers), words, wanted.bytes_s / most / workers),
        _partition_need(wanted, workers, most),
        Need("slots", str(slots), f"{SLOTS_A_WORKER} a worker, to share load by bytes"),
        Need("memory", f"{workers * WORKER_MB:,} MB", f"{WORKER_MB} MB a worker at most"),
        _network_need(wanted),
        *_connection_needs(wanted, workers * connections * wanted.way.brokers),
        _broker_need("source brokers", wanted, figures.source_byte_s),
        _broker_need("target brokers", wanted, figures.target_byte_s),
        _lag_need(wanted),
    ]


def first_limit(needs: list[Need]) -> Need:
    """What saturates first, or is wanted in vain."""
    return max(needs, key=lambda need: need.used or 0.0)


def _record_s(wanted: Wanted, figures: Figures) -> float:
    records = wanted.shape.a_batch
    batch_s = min(figures.batch_s, records * figures.record_s)
    return wanted.shape.record_bytes * figures.byte_s + batch_s / records


def _worker_limits(
    wanted: Wanted, record_s: float, memory_bytes: int, connections: int
) -> dict[str, float]:
    """Bytes a second: of one thread, and far away of what may be under way in a round trip."""
    way = wanted.way
    found = {"a core does": wanted.shape.record_bytes / record_s}
    if way.is_far:
        held = memory_bytes * 2 / 3
        found["its memory holds in a round trip"] = FAR_SHARE * held / way.rtt_s
        if way.window_bytes is not None:
            under_way = way.window_bytes * connections * way.brokers
            found["its connections bring in a round trip"] = FAR_SHARE * under_way / way.rtt_s
    return found


def _partition_need(wanted: Wanted, workers: int, most: float) -> Need:
    """A partition is copied by one worker."""
    share = wanted.bytes_s / wanted.shape.partitions
    used = max(share / most, workers / wanted.shape.partitions)
    words = f"{share / 1e6:,.1f} MB/s each, of {most / 1e6:,.0f} that a worker copies of one"
    return Need("partitions", str(wanted.shape.partitions), words, used)


def _network_need(wanted: Wanted) -> Need:
    gbit = wanted.bytes_s * 8 / _GIGABYTE
    used = None if wanted.way.gbit_s is None else gbit / wanted.way.gbit_s
    return Need("network", f"{gbit:.2f} Gbit/s", f"{wanted.bytes_s / 1e6:,.0f} MB/s", used)


def _connection_needs(wanted: Wanted, allowed: int) -> list[Need]:
    """A connection brings a window a round trip."""
    if wanted.way.window_bytes is None or not wanted.way.is_far:
        return []
    one = FAR_SHARE * wanted.way.window_bytes / wanted.way.rtt_s
    needed = ceil(wanted.bytes_s / one)
    words = (
        f"{one / 1e6:,.1f} MB/s each; fewer with a larger socket.send.buffer.bytes of the source's"
        " brokers"
    )
    return [Need("fetch connections", f"{needed:,}", words, needed / allowed)]


def _broker_need(what: str, wanted: Wanted, byte_s: float) -> Need:
    cores = wanted.bytes_s * byte_s
    return Need(what, f"{cores:.1f} cores", "for this copying alone, with one replica")


def _lag_need(wanted: Wanted) -> Need:
    """Nobody hears of a record before the light has come."""
    floor_ms = wanted.way.hops * (wanted.way.rtt_ms / 2)
    least_ms = floor_ms + wanted.way.hops * NEAR_MS
    hops = f"{wanted.way.hops} hops" if wanted.way.hops > 1 else "one hop"
    words = f"{floor_ms:,.0f} ms of it are half a round trip, {hops}: no copier is below that"
    return Need("lag at best", f"{least_ms:,.0f} ms", words, least_ms / 1000 / wanted.lag_s)
