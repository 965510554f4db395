"""What a client calls itself in messages about rights."""

from __future__ import annotations

import pytest

from mirrorfleet.config.cluster_settings import Mechanism, Protocol, Security

TLS = Protocol.SASL_SSL


@pytest.mark.parametrize(
    ("security", "said"),
    [
        (Security(), "User:ANONYMOUS"),
        (Security(protocol=Protocol.SSL, ca_file="ca.pem"), "User:ANONYMOUS"),
        (
            Security(protocol=Protocol.SSL, cert_file="us.pem", key_file="us.key"),
            "the owner of certificate us.pem",
        ),
        (
            Security(protocol=Protocol.SSL, cert_file="c", key_file="k", username="CN=us,O=we"),
            "User:CN=us,O=we",
        ),
        (Security(protocol=TLS, mechanism=Mechanism.PLAIN, username="us"), "User:us"),
        (
            Security(protocol=TLS, mechanism=Mechanism.OAUTHBEARER, token_file="us.token"),
            "the bearer of the token of us.token",
        ),
        (
            Security(protocol=TLS, mechanism=Mechanism.OAUTHBEARER, token_file="t", username="us"),
            "User:us",
        ),
    ],
    ids=["open", "tls", "mutual tls", "named certificate", "sasl", "token", "named token"],
)
def test_the_principal_is_the_user_or_where_it_comes_from(security: Security, said: str) -> None:
    assert security.principal == said
    assert security.acl_principal == (said if said.startswith("User:") else None)
