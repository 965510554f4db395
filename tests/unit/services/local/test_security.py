from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirrorfleet.config.cluster_settings import Mechanism, Protocol, Security
from services.local.broker import LocalError
from services.local.security import Authorizer, Kind, RegionSecurity

TLS = Path("/r/tls")


def test_a_plain_region_needs_no_secrets() -> None:
    security = RegionSecurity()

    assert security.properties(TLS) == {
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT"
    }
    assert security.scram_arguments() == []
    assert security.client(TLS, "admin", Mechanism.PLAIN) == Security()


def test_mutual_tls_demands_a_certificate_and_takes_its_common_name_as_the_user() -> None:
    found = RegionSecurity(kind=Kind.MTLS).properties(TLS)

    assert found["listener.security.protocol.map"].startswith("CLIENTS:SSL,")
    assert found["listener.name.clients.ssl.client.auth"] == "required"
    assert found["listener.name.clients.ssl.keystore.location"] == "/r/tls/broker.pem"
    assert found["ssl.principal.mapping.rules"] == "RULE:^CN=([^,]+).*$/$1/,DEFAULT"


def test_a_sasl_region_takes_all_four_mechanisms_at_once() -> None:
    security = RegionSecurity(kind=Kind.SASL_SSL, users={"admin": "a", "alice": "b"})

    found = security.properties(TLS)

    assert found["listener.name.clients.sasl.enabled.mechanisms"] == (
        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
    )
    assert 'user_admin="a" user_alice="b";' in found["listener.name.clients.plain.sasl.jaas.config"]
    assert security.scram_arguments()[-2:] == [
        "--add-scram",
        "SCRAM-SHA-512=[name=alice,password=b]",
    ]


@pytest.mark.parametrize("kind", [Kind.PLAINTEXT, Kind.SSL])
def test_an_authorizer_is_refused_where_clients_have_no_names(kind: Kind) -> None:
    with pytest.raises(LocalError, match="needs clients with names") as caught:
        RegionSecurity(kind=kind, authorizer=Authorizer.STANDARD)

    assert "--security mtls" in caught.value.hint


def test_with_an_authorizer_admin_and_the_brokers_may_do_everything() -> None:
    found = RegionSecurity(kind=Kind.SASL_SSL, authorizer=Authorizer.STANDARD).properties(TLS)

    assert found["super.users"] == "User:ANONYMOUS;User:admin"
    assert found["authorizer.class.name"].endswith(".StandardAuthorizer")


def test_a_client_is_told_files_and_never_a_password() -> None:
    security = RegionSecurity(kind=Kind.SASL_SSL)

    scram = security.client(TLS, "alice", Mechanism.SCRAM_SHA_512)
    token = security.client(TLS, "alice", Mechanism.OAUTHBEARER)

    assert scram == Security(
        protocol=Protocol.SASL_SSL,
        mechanism=Mechanism.SCRAM_SHA_512,
        username="alice",
        password_file="/r/tls/alice.password",
        ca_file="/r/tls/ca.pem",
    )
    assert token.token_file == "/r/tls/alice.token"
    assert token.password_file is None


def test_a_mutual_tls_client_has_a_certificate_and_its_key() -> None:
    client = RegionSecurity(kind=Kind.MTLS).client(TLS, "alice", Mechanism.PLAIN)

    assert client == Security(
        protocol=Protocol.SSL,
        ca_file="/r/tls/ca.pem",
        cert_file="/r/tls/alice.pem",
        key_file="/r/tls/alice.key",
    )


def test_only_what_a_variant_needs_is_asked_for() -> None:
    ssl = json.loads(RegionSecurity(kind=Kind.SSL).wanted(TLS))
    sasl = json.loads(RegionSecurity(kind=Kind.SASL_PLAINTEXT, users={"admin": "a"}).wanted(TLS))

    assert (ssl["hosts"], ssl["certificates"], ssl["passwords"]) == (
        ["127.0.0.1", "localhost"],
        [],
        {},
    )
    assert (sasl["hosts"], sasl["certificates"], sasl["passwords"]) == ([], [], {"admin": "a"})
