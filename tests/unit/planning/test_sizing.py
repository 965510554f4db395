"""What a rate takes, by figures of a core: against the rows that the figures are from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorfleet.core.errors import ConfigError
from mirrorfleet.kafka.low_water import FAR_S
from mirrorfleet.planning.sizing import (
    FAR_MS,
    Figures,
    Need,
    Shape,
    Wanted,
    Way,
    figures_of,
    first_limit,
    sized,
)
from tests.bench.calibration import CALIBRATED

MEMORY, CONNECTIONS = 56 << 20, 48
FULL = Wanted(1_000_000, Shape(1_000), Way(), headroom=1.0)
CALIBRATION = {
    "1k-plain": {
        "mb_per_core_s": 680.0,
        "records_per_core_s": 680_000,
        "source_core_s_per_mb": 0.0005,
        "target_core_s_per_mb": 0.002,
    },
    "100b-lz4": {"mb_per_core_s": 1234.0, "records_per_core_s": 12_340_000},
    "single": {"mb_per_core_s": 300.0, "records_per_core_s": 300_000},
}


def needs(wanted: Wanted, figures: Figures | None = None) -> dict[str, Need]:
    found = sized(wanted, figures or Figures(), memory_bytes=MEMORY, connections=CONNECTIONS)
    return {need.what: need for need in found}


@pytest.mark.parametrize(
    ("shape", "measured"),
    [
        (Shape(1_000, 1_000), 680_000),
        (Shape(1_000, 1_000, 1), 300_000),
        (Shape(1_000, 200, 1), 437_304),
        (Shape(1_000, 20, 655), 12_340_000),
    ],
    ids=["1k-plain", "single", "single-lz4", "100b-lz4"],
)
def test_a_core_copies_what_was_measured(shape: Shape, measured: float) -> None:
    """Within a third: that is how far apart two runs are."""
    found = needs(replace(FULL, shape=shape))["workers"]

    cores = float(found.words.partition("; ")[2].split()[0])
    assert cores == pytest.approx(1_000_000 / measured, rel=0.34, abs=0.06)


def test_tls_on_both_sides_costs_what_was_measured() -> None:
    """2.57 CPU-s/GB where it was 1.54 without, 1.25 and 3.26 of the brokers."""
    plain, under_tls = needs(FULL), needs(replace(FULL, tls=True))

    assert plain["workers"].words.endswith("1.5 cores in all")
    assert under_tls["workers"].words.endswith("2.6 cores in all")
    assert under_tls["source brokers"].amount == "1.3 cores"
    assert under_tls["target brokers"].amount == "3.3 cores"


def test_a_calibration_gives_back_its_own_rates() -> None:
    found = figures_of(CALIBRATION)

    assert set(CALIBRATION) == set(CALIBRATED)
    million = replace(FULL, shape=Shape(1_000, 1_000))
    assert needs(million, found)["workers"].words.endswith(f"{1 / 0.68:.1f} cores in all")
    alone = replace(FULL, shape=Shape(1_000, 1_000, 1))
    assert needs(alone, found)["workers"].words.endswith(f"{1 / 0.3:.1f} cores in all")
    assert (found.source_byte_s, found.target_byte_s) == (0.5e-9, 2e-9)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        CALIBRATION | {"single": {}},
        CALIBRATION | {"single": {"records_per_core_s": 0}},
        CALIBRATION | {"1k-plain": "fast"},
    ],
)
def test_what_is_no_calibration_is_refused(broken: dict[str, dict[str, float]]) -> None:
    with pytest.raises(ConfigError, match="this is no calibration") as refused:
        figures_of(broken)
    assert "make bench BENCH=--calibrate" in str(refused.value)


def test_far_is_where_the_mirror_opens_more_connections() -> None:
    assert FAR_MS / 1000 == FAR_S


def test_headroom_is_more_of_everything_that_carries_bytes() -> None:
    once, twice = needs(FULL), needs(replace(FULL, headroom=2.0))

    assert (once["workers"].amount, twice["workers"].amount) == ("2", "3")
    assert (once["network"].amount, twice["network"].amount) == ("8.00 Gbit/s", "16.00 Gbit/s")
    assert (once["slots"].amount, twice["slots"].amount) == ("8", "12")
    assert once["memory"].amount == "400 MB"
    assert once["target brokers"].amount == "2.1 cores"


def test_far_away_the_window_of_a_connection_decides_and_more_workers_help() -> None:
    """As measured at 100 ms, one worker and one broker: 222 MB/s, 60 with 200 KB a connection."""
    far = replace(FULL, records_s=222_000, way=Way(rtt_ms=100, brokers=1))
    narrow = replace(far, way=replace(far.way, window_bytes=200_000))

    assert needs(far)["workers"].amount == "1"
    assert "fetch connections" not in needs(far)
    assert "its memory holds" in needs(replace(far, records_s=230_000))["workers"].words
    found = needs(narrow)
    assert (found["workers"].amount, found["fetch connections"].amount) == ("4", "185")
    assert "its connections bring" in found["workers"].words
    assert found["fetch connections"].used == pytest.approx(185 / 192, abs=0.01)
    near = needs(replace(narrow, way=replace(narrow.way, rtt_ms=1)))
    assert "fetch connections" not in near


@pytest.mark.parametrize(
    ("wanted", "what"),
    [
        (FULL, "workers"),
        (replace(FULL, way=Way(gbit_s=1.0)), "network"),
        (replace(FULL, shape=Shape(1)), "partitions"),
        (replace(FULL, way=Way(rtt_ms=200), lag_s=0.1), "lag at best"),
        (replace(FULL, way=Way(rtt_ms=100, hops=3), lag_s=0.2), "lag at best"),
    ],
)
def test_what_saturates_first_is_named(wanted: Wanted, what: str) -> None:
    first = first_limit(list(needs(wanted).values()))

    assert first.what == what
    assert first.used is not None
    assert (first.used > 1) == (what != "workers")


def test_lag_has_a_floor_that_grows_with_every_hop() -> None:
    one = needs(replace(FULL, way=Way(rtt_ms=150)))["lag at best"]
    three = needs(replace(FULL, way=Way(rtt_ms=150, hops=3)))["lag at best"]

    assert (one.amount, three.amount) == ("95 ms", "285 ms")
    assert one.words == "75 ms of it are half a round trip, one hop: no copier is below that"
    assert three.words.startswith("225 ms of it are half a round trip, 3 hops")
    assert one.row() == {"what": "lag at best", "amount": "95 ms", "used": 0.0, "words": one.words}
