"""What Spark shows of a write on its own pages has no password and no key in it."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism, Protocol, Security
from mirrorfleet.core.ids import ClusterAlias
from spark import kafka_options
from spark.kafka_options import client_options
from spark.session import SETTINGS

REDACTED = "spark.sql.redaction.options.regex"
BY_PASSWORD = Security(
    protocol=Protocol.SASL_SSL,
    mechanism=Mechanism.SCRAM_SHA_512,
    username="mirror",
    password="swordfish",
    ca_file="ca.pem",
)
BY_KEY = Security(
    protocol=Protocol.SSL, ca_file="ca.pem", cert_file="client.pem", key_file="client.key"
)


@pytest.mark.parametrize("security", [BY_PASSWORD, BY_KEY], ids=["password", "key"])
def test_no_option_of_a_write_that_holds_a_secret_is_shown(
    session: SparkSession, security: Security, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_options, "_text", lambda file: f"text of {file}")
    settings = ClusterSettings(alias=ClusterAlias("west"), bootstrap=("a:1",), security=security)
    found = {f"kafka.{name}" for name in client_options(settings)}

    shown = {name for name in found if re.search(SETTINGS[REDACTED], name) is None}

    assert session.conf.get(REDACTED) == SETTINGS[REDACTED]
    assert shown == {"kafka.bootstrap.servers", "kafka.security.protocol"} & found
    assert found - shown
