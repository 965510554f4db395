from __future__ import annotations

from pathlib import Path

import pytest

from mirrorfleet.config.cluster_settings import ClusterSettings, Mechanism, Protocol, Security
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.core.ids import ClusterAlias
from spark.kafka_options import client_options


def options(security: Security) -> dict[str, str]:
    bootstrap = ("a:1", "b:2")
    settings = ClusterSettings(alias=ClusterAlias("west"), bootstrap=bootstrap, security=security)
    found = client_options(settings)
    assert found.pop("bootstrap.servers") == "a:1,b:2"
    return found


def test_a_plain_cluster_needs_its_addresses_only() -> None:
    assert options(Security()) == {}


def test_a_password_is_quoted_for_the_login_module() -> None:
    security = Security(
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.SCRAM_SHA_512,
        username="mirror",
        password='a"b\\c',
    )

    assert options(security) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="mirror" password="a\\"b\\\\c";',
    }


def test_certificates_are_handed_over_as_text(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("CA")
    (tmp_path / "client.pem").write_text("CERT")
    (tmp_path / "client.key").write_text("KEY")
    security = Security(
        protocol=Protocol.SSL,
        ca_file=str(tmp_path / "ca.pem"),
        cert_file=str(tmp_path / "client.pem"),
        key_file=str(tmp_path / "client.key"),
        check_hostname=False,
    )

    assert options(security) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CERT",
        "ssl.keystore.key": "KEY",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_a_token_comes_from_its_file() -> None:
    security = Security(
        protocol=Protocol.SASL_PLAINTEXT,
        mechanism=Mechanism.OAUTHBEARER,
        token_file="/run/token",
    )

    found = options(security)

    assert found["sasl.oauthbearer.token.endpoint.url"] == "file:///run/token"
    assert found["sasl.jaas.config"].endswith("OAuthBearerLoginModule required;")


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.pem: No such file"):
        options(Security(protocol=Protocol.SSL, ca_file=str(tmp_path / "none.pem")))
