"""What an estate's tuning and its traces add to the rights of a fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorfleet.config.load import parse_estate
from mirrorfleet.operating.access import wanted_grants

ESTATE = """
estate: e
clusters: {east: {bootstrap: "h:1"}, north: {bootstrap: "h:2"}, west: {bootstrap: "h:3"}}
links:
  - {from: east, to: west, rules: [{name: all, topics: [orders]}]}
  - {from: north, to: west, rules: [{name: all, topics: [orders]}]}
  - {from: west, to: east, rules: [{name: all, topics: [carts]}]}
"""
AT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
IN_FILE = "telemetry: {endpoint: 'http://c:4318', headers: {authorization: {env: NOT_HERE}}}\n"


def given(service: str, topic: str, more: str = "", env: dict[str, str] | None = None) -> list[str]:
    """Rights to one topic, as words."""
    estate = parse_estate(ESTATE + more, "e", directory=Path(), env=env or {})
    found = wanted_grants(estate, "west", [service])
    return [f"{each.cluster} {each.operation}" for each in found if each.name == topic]


def test_heartbeats_are_written_where_the_tuning_says() -> None:
    at_source = "services: {heartbeat: {place: source}}\n"

    assert given("heartbeat", "heartbeats") == ["west Create", "west Write"]
    assert given("heartbeat", "heartbeats", at_source) == [
        "east Create",
        "east Write",
        "north Create",
        "north Write",
    ]


@pytest.mark.parametrize(("more", "env"), [("", AT), (IN_FILE, {})], ids=["env", "estate"])
def test_with_traces_a_mirror_reads_what_the_fleet_of_its_source_sampled(
    more: str, env: dict[str, str]
) -> None:
    """The secrets of the traces may be elsewhere: rights are given at another desk."""
    assert given("mirror", "__mirrorfleet.east.progress", more, env) == ["east Read"]


def test_without_traces_it_does_not() -> None:
    off = {**AT, "OTEL_SDK_DISABLED": "true"}

    assert given("mirror", "__mirrorfleet.east.progress") == []
    assert given("mirror", "__mirrorfleet.east.progress", env=off) == []
