"""A fleet under an authorizer, with the printed grants and no others."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mirrorfleet.core.errors import BrokerError
from mirrorfleet.core.ids import TopicPartition
from mirrorfleet.kafka.acls import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    create_acls,
)
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.groups import GroupOffsets, commit_offsets, fetch_offsets
from mirrorfleet.offsets.homes import GroupOffset
from services.cli.__main__ import main
from services.local.region import Region, RegionSpec
from services.local.security import Authorizer, Kind, RegionSecurity
from tests.conftest import Regions
from tests.faultkit.waiting import NotInTimeError, until, wait_until

SERVICES = ("sync", "mirror", "checkpoint")
USERS = {name: f"{name}-secret" for name in ("admin", *SERVICES)}
SECURITY = RegionSecurity(kind=Kind.SASL_PLAINTEXT, authorizer=Authorizer.STANDARD, users=USERS)
RECORDS = 50


def write_estate(directory: Path, user: str, east: Region, west: Region) -> Path:
    """Each service has an estate of its own, with its own user and nobody else's secret."""
    (directory / f"{user}.password").write_text(USERS[user], encoding="utf-8")
    clusters = "".join(
        f"""
  {region.name}:
    bootstrap: "{region.bootstrap[0]}"
    security:
      protocol: SASL_PLAINTEXT
      mechanism: SCRAM-SHA-512
      username: {user}
      password: {{file: {user}.password}}"""
        for region in (east, west)
    )
    file = directory / f"{user}.yaml"
    file.write_text(
        f"""estate: test
clusters:{clusters}
links:
  - {{from: east, to: west, slots: 2,
     rules: [{{name: orders, topics: ["orders.*"], groups: [g.*]}}]}}
  - {{from: west, to: east, rules: [{{name: back, topics: ["back.*"]}}], slots: 2}}
services: {{checkpoint: {{period_s: 0.5, pack_at_least: 1, pack_period_s: 0.5}}}}
""",
        encoding="utf-8",
    )
    return file


def as_admin(region: Region) -> dict[str, str]:
    return {
        "bootstrap.servers": region.bootstrap[0],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": USERS["admin"],
    }


def printed_grants(
    estate: Path, service: str, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, str]]:
    arguments = ["acls", "--estate", str(estate), "--target", "west", "--service", service]
    assert main([*arguments, "-o", "json"]) == 0
    found: list[dict[str, str]] = json.loads(capsys.readouterr().out)
    return found


def binding(grant: dict[str, str]) -> AclBinding:
    words = {"DescribeConfigs": "DESCRIBE_CONFIGS", "AlterConfigs": "ALTER_CONFIGS"}
    return AclBinding(
        resource=AclResource[grant["resource_type"]],
        name=grant["name"],
        pattern=AclPattern[grant["pattern_type"]],
        principal=grant["principal"],
        host=grant["host"],
        operation=AclOperation[words.get(grant["operation"], grant["operation"].upper())],
        permission=AclPermission[grant["permission"]],
    )


async def grant_all(region: Region, found: list[dict[str, str]]) -> None:
    wanted = [binding(one) for one in found if one["cluster"] == region.name]
    async with Cluster(region.settings()) as cluster:
        assert set((await create_acls(cluster, wanted)).values()) == {None}


@contextmanager
def service(name: str, estate: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The service as a process; ends with the block."""
    command = [sys.executable, "-m", f"services.{name}", "--estate", str(estate)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--target", "west", "--http-port", "0"], stdout=out, stderr=out
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)


def consume(region: Region, topic: str) -> list[bytes]:
    """What a read_committed consumer gets until all records are there."""
    found: list[bytes] = []
    consumer = Consumer(
        {
            **as_admin(region),
            "group.id": "judge",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": "1000",
        }
    )
    consumer.subscribe([topic])

    def enough() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value() or b"")
        return len(found) >= RECORDS

    try:
        with suppress(NotInTimeError):  # what is missing is said with the services' logs
            wait_until(enough, deadline_s=60, what=f"{RECORDS} records in {topic}")
    finally:
        consumer.close()
    return found


async def set_group(region: Region) -> None:
    """A group that has read seven records of the first partition."""
    async with Cluster(region.settings()) as cluster:
        place = {TopicPartition("orders", 0): GroupOffset(7)}
        assert await commit_offsets(cluster, {"g1": place}) == {"g1": None}


async def group_on(region: Region) -> GroupOffsets | BrokerError:
    """Its place, once it has one."""

    async def place() -> GroupOffsets | BrokerError:
        return (await fetch_offsets(cluster, ["g1"]))["g1"]

    async with Cluster(region.settings()) as cluster:
        with suppress(NotInTimeError):
            return await until(place, deadline_s=30, what="g1 to have a place")
        return {}


@pytest.mark.timeout(180)
def test_a_fleet_runs_with_the_printed_grants_and_no_others(
    regions: Regions, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    east, west = regions(
        RegionSpec(name="east", security=SECURITY), RegionSpec(name="west", security=SECURITY)
    )
    for name in SERVICES:
        estate = write_estate(tmp_path, name, east, west)
        found = printed_grants(estate, name, capsys)
        for region in (east, west):
            asyncio.run(grant_all(region, found))
    admin = AdminClient({**as_admin(east)})
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(20)
    producer = Producer(as_admin(east))
    for number in range(RECORDS):
        producer.produce("orders", value=str(number).encode(), partition=number % 2)
    producer.flush(20)
    asyncio.run(set_group(east))
    logs = {name: tmp_path / f"{name}.log" for name in SERVICES}
    with ExitStack() as stack:
        for name in SERVICES:
            stack.enter_context(service(name, tmp_path / f"{name}.yaml", logs[name]))
        copied = consume(west, "east.orders")
        placed = asyncio.run(group_on(west))
        wait_until(
            lambda: '"packed"' in logs["checkpoint"].read_text("utf-8"),
            deadline_s=60,
            what="a slot to be packed",
        )
    words = "".join(log.read_text(encoding="utf-8") for log in logs.values())
    assert sorted(copied, key=int) == [str(number).encode() for number in range(RECORDS)], words
    assert placed == {TopicPartition("east.orders", 0): GroupOffset(7)}, words
    assert "not packed" not in words
    assert "AUTHORIZATION_FAILED" not in words
