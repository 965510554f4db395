from __future__ import annotations

from typing import TYPE_CHECKING

from aiokafka.client import AIOKafkaClient

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism, Protocol, Security
from mirrorfleet.core.ids import ClusterAlias
from mirrorfleet.kafka.aiokafka_options import client_options, read_secret_again

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_password_is_read_for_each_connection_and_the_last_one_kept_without_a_file(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "password"
    secret.write_text("first")
    security = Security(
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.SCRAM_SHA_512,
        username="mirror",
        password_file=str(secret),
    )
    settings = ClusterSettings(
        alias=ClusterAlias("west"), bootstrap=("127.0.0.1:1",), security=security
    )
    client = AIOKafkaClient(**client_options(settings))
    read_secret_again(client, settings)

    read = [client._sasl_plain_password]
    secret.write_text("second")
    read.append(client._sasl_plain_password)
    secret.unlink()
    read.append(client._sasl_plain_password)

    assert read == ["first", "second", "second"]
