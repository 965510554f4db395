from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.bench.plots import INTO, KEPT, draw, merged, plots, read, way
from tests.bench.rows import Row

FLEET = Row(workload="1k-plain", delivery="exactly-once", system="fleet", kafka="4.3.0", mb_s=300.0)
PEER = replace(FLEET, system="mm2-tuned", mb_s=100.0)


def test_each_workload_and_way_to_the_source_has_a_plot_of_its_own() -> None:
    far = replace(FLEET, workload="1p", rtt_ms=100.0, window_bytes=200_000)
    safe = replace(FLEET, security="sasl_ssl")

    assert sorted(plots([FLEET, PEER, far, safe])) == [
        "1k-plain-sasl_ssl.svg",
        "1k-plain.svg",
        "1p-100ms-200kB.svg",
    ]


def test_bars_are_as_long_as_their_figure_and_ours_has_another_colour() -> None:
    drawn = plots([FLEET, PEER])["1k-plain.svg"]

    assert 'width="360.0" height="18" fill="#1a73e8"' in drawn
    assert 'width="120.0" height="18" fill="#9aa0a6"' in drawn
    assert "mm2-tuned, exactly-once" in drawn


def test_a_delay_that_was_not_measured_is_no_short_one() -> None:
    ours, theirs = replace(FLEET, p50_ms=40.0, p99_ms=80.0), replace(PEER, p50_ms=7.0)

    drawn = plots([ours, theirs])["1k-plain.svg"]

    assert drawn.count(">not measured<") == 3  # the p99 of one, the CPU of both


def test_of_two_rows_of_one_system_the_later_one_counts() -> None:
    later = replace(PEER, mb_s=120.0)

    assert merged([FLEET, PEER, later]) == [FLEET, later]
    assert way(later) == "1k-plain"


def test_the_plots_of_the_docs_are_those_of_the_rows_beside_them(tmp_path: Path) -> None:
    draw(read(INTO / KEPT), tmp_path)

    drawn = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert drawn == {file.name: file.read_text() for file in INTO.iterdir()}
