from __future__ import annotations

from pathlib import Path

import pytest

from services.local.properties import COMMON, environment, replication, text
from services.local.region import Region, RegionSpec, Written, new_id


@pytest.mark.parametrize(
    ("brokers", "factor", "in_sync"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")]
)
def test_there_are_as_many_copies_as_brokers_and_three_at_most(
    brokers: int, factor: str, in_sync: str
) -> None:
    found = replication(brokers)

    assert found["default.replication.factor"] == factor
    assert found["transaction.state.log.replication.factor"] == factor
    assert found["min.insync.replicas"] == in_sync
    assert found["transaction.state.log.min.isr"] == in_sync


def test_what_exactly_once_needs_is_the_same_everywhere() -> None:
    assert COMMON["unclean.leader.election.enable"] == "false"
    assert COMMON["auto.create.topics.enable"] == "false"


def test_a_container_spells_a_setting_with_underscores() -> None:
    assert environment({"log.dirs": "/data", "a_b.c-d": "1"}) == {
        "KAFKA_LOG_DIRS": "/data",
        "KAFKA_A__B_C___D": "1",
    }


def test_a_properties_file_doubles_backslashes_as_java_reads_them() -> None:
    assert text({"rules": r"RULE:^CN=(\w+)$", "node.id": "1"}) == (
        "rules=RULE:^CN=(\\\\w+)$\nnode.id=1\n"
    )


def test_each_broker_names_all_controllers_and_its_own_listeners() -> None:
    spec = RegionSpec(name="east", brokers=2, extra={"log.segment.bytes": "1048576"})
    ports = ((19092, 11, 12), (19093, 21, 22))
    region = Region(Path("/r"), Written(spec=spec, ports=ports, java="java", jars="jars"))

    found = region.properties(2)

    assert found["node.id"] == "2"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:12,2@127.0.0.1:22"
    assert found["listeners"] == (
        "CLIENTS://127.0.0.1:19093,BROKERS://127.0.0.1:21,CONTROLLER://127.0.0.1:22"
    )
    assert found["advertised.listeners"] == "CLIENTS://127.0.0.1:19093,BROKERS://127.0.0.1:21"
    assert found["log.dirs"] == "/r/broker-2/data"
    assert found["log.segment.bytes"] == "1048576"
    assert region.bootstrap == ("127.0.0.1:19092", "127.0.0.1:19093")


def test_what_a_broker_unpacks_goes_with_its_own_folder() -> None:
    spec = RegionSpec(name="east", brokers=2)
    ports = ((19092, 11, 12), (19093, 21, 22))
    region = Region(Path("/r"), Written(spec=spec, ports=ports, java="java", jars="jars"))

    asked = [one for broker in region.brokers for one in broker.command if "tmpdir" in one]

    assert asked == ["-Djava.io.tmpdir=/r/broker-1", "-Djava.io.tmpdir=/r/broker-2"]


def test_an_id_never_begins_like_an_option_of_a_command() -> None:
    ids = [new_id() for _ in range(500)]

    assert [one for one in ids if one.startswith("-") or len(one) != 22] == []
