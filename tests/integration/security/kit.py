"""What tests do with regions that know their clients: estates, grants, records, as `admin`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mirrorfleet.config.cluster_settings import Mechanism
from mirrorfleet.config.flows import flow_of
from mirrorfleet.config.load import load_estate
from mirrorfleet.kafka.acls import (
    AclBinding,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    create_acls,
    delete_acls,
)
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.policy.acls import Grant, Resource, Service, grants
from services.local.region import Region
from services.local.security import SUPER_USER
from tests.faultkit.regions import address
from tests.judge.reading import ClusterAccess

SCRAM: Final = Mechanism.SCRAM_SHA_512
_RESOURCES: Final = {
    Resource.TOPIC: AclResource.TOPIC,
    Resource.GROUP: AclResource.GROUP,
    Resource.TRANSACTIONAL_ID: AclResource.TRANSACTIONAL_ID,
}


def section(region: Region, user: str, mechanism: Mechanism = SCRAM) -> dict[str, object]:
    """The `security` section of an estate for one user of a region."""
    security = region.settings(user, mechanism).security
    written: dict[str, object] = {
        "protocol": security.protocol.value,
        "mechanism": security.mechanism and security.mechanism.value,
        "username": None if mechanism is Mechanism.OAUTHBEARER else security.username,
        "password": security.password_file and {"file": security.password_file},
        "token_file": security.token_file,
        "ca_file": security.ca_file,
        "cert_file": security.cert_file,
        "key_file": security.key_file,
    }
    return {key: value for key, value in written.items() if value is not None}


def access_as(region: Region, user: str = SUPER_USER) -> ClusterAccess:
    """How the judge, the traffic maker and admin clients reach a region."""
    security = region.settings(user, SCRAM).security
    asked = {
        "security.protocol": security.protocol.value,
        "sasl.mechanism": security.mechanism and security.mechanism.value,
        "sasl.username": security.username,
        "sasl.password": security.read_password() if security.password_file else None,
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.cert_file,
        "ssl.key.location": security.key_file,
    }
    return ClusterAccess(address(region), {k: v for k, v in asked.items() if v is not None})


def properties(access: ClusterAccess) -> dict[str, str | int | float | bool]:
    """The same for a client of librdkafka."""
    return {"bootstrap.servers": access.bootstrap, **access.properties}


def create_topics(access: ClusterAccess, partitions: Mapping[str, int]) -> None:
    """Create topics and wait for it."""
    admin = AdminClient(properties(access))
    made = admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()])
    for each in made.values():
        each.result(20)


def topics_of(access: ClusterAccess) -> set[str]:
    """Every topic of a cluster."""
    return set(AdminClient(properties(access)).list_topics(timeout=15).topics)


def produce(access: ClusterAccess, partitions: Mapping[str, int], records: int) -> None:
    """Write `records` records to each partition."""
    producer = Producer({**properties(access), "linger.ms": 5})
    for topic, count in partitions.items():
        for number in range(records * count):
            value = f"{topic} {number}".encode()
            producer.produce(topic, key=b"k%d" % number, value=value, partition=number % count)
    assert producer.flush(20) == 0


def needed(estate: Path, service: Service) -> list[Grant]:
    """What `mirrorfleet acls` prints for a service."""
    read = load_estate(estate)
    flows = [flow_of(read, entry) for entry in read.links_into("west")]
    return grants(read.fleet_of("west"), flows, [service])


def binding(grant: Grant, user: str, *, name: str = "") -> AclBinding:
    """The grant as an ACL for a user; with `name`, for that name alone."""
    pattern = AclPattern.LITERAL if name else AclPattern[grant.pattern.name]
    return AclBinding(
        resource=_RESOURCES[grant.resource],
        name=name or grant.name,
        pattern=pattern,
        principal=f"User:{user}",
        host="*",
        operation=AclOperation[grant.operation.name],
        permission=AclPermission.ALLOW,
    )


def give(region: Region, wanted: Iterable[AclBinding]) -> None:
    """Add ACLs, as `admin`."""
    found = asyncio.run(_give(region, list(wanted)))
    assert set(found.values()) <= {None}


def take_back(region: Region, wanted: Iterable[AclBinding]) -> None:
    """Delete ACLs, as `admin`."""
    asyncio.run(_take_back(region, list(wanted)))


async def _give(region: Region, wanted: Sequence[AclBinding]) -> Mapping[AclBinding, object]:
    async with Cluster(region.settings()) as cluster:
        return await create_acls(cluster, wanted)


async def _take_back(region: Region, wanted: Sequence[AclBinding]) -> None:
    async with Cluster(region.settings()) as cluster:
        await delete_acls(cluster, wanted)
