"""How the clients of a local region prove who they are, from both ends.

Brokers speak to each other and to the controllers in the clear on 127.0.0.1, as ANONYMOUS; with
an authorizer ANONYMOUS is a super user for their sake, so it needs clients that have a name.
A SASL region takes all four mechanisms at once. Passwords are `<user>-secret`: throwaway, local.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from mirrorfleet.config.cluster_settings import Mechanism, Protocol, Security
from services.local.broker import LocalError

SUPER_USER: Final = "admin"
GOOD_HOSTS: Final = ("127.0.0.1", "localhost")
_JAAS: Final = "org.apache.kafka.common.security"
_PREFIX: Final = "listener.name.clients."


class Kind(StrEnum):
    """What a client needs: nothing, the CA, a certificate of its own, a name and a secret, both."""

    PLAINTEXT = "plaintext"
    SSL = "ssl"
    MTLS = "mtls"
    SASL_PLAINTEXT = "sasl_plaintext"
    SASL_SSL = "sasl_ssl"

    @property
    def protocol(self) -> Protocol:
        """Kafka's word for it."""
        return Protocol.SSL if self is Kind.MTLS else Protocol(self.name)


class Authorizer(StrEnum):
    """Whether ACLs are checked, by Kafka's StandardAuthorizer; `admin` may do everything."""

    NONE = "none"
    STANDARD = "standard"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionSecurity:
    """`users` to passwords, with `admin`; `hosts` and lifetime of the brokers' certificate."""

    kind: Kind = Kind.PLAINTEXT
    authorizer: Authorizer = Authorizer.NONE
    users: Mapping[str, str] = field(
        default_factory=lambda: {name: f"{name}-secret" for name in (SUPER_USER, "mirrorfleet")}
    )
    hosts: tuple[str, ...] = GOOD_HOSTS
    lifetime_days: int = 30

    def __post_init__(self) -> None:
        if self.authorizer is not Authorizer.NONE and self.kind in {Kind.PLAINTEXT, Kind.SSL}:
            raise LocalError(
                f"an authorizer needs clients with names, which {self.kind} clients have not.",
                hint="Use --security mtls, sasl_plaintext or sasl_ssl.",
            )

    def wanted(self, directory: Path) -> str:
        """What the program that makes certificates and secrets is told, as JSON."""
        protocol = self.kind.protocol
        return json.dumps(
            {
                "directory": str(directory),
                "hosts": self.hosts if protocol.tls else (),
                "lifetime_days": self.lifetime_days,
                "certificates": tuple(self.users) if self.kind is Kind.MTLS else (),
                "passwords": dict(self.users) if protocol.sasl else {},
            }
        )

    def properties(self, directory: Path) -> dict[str, str]:
        """The brokers' side."""
        protocol = self.kind.protocol
        listeners = f"CLIENTS:{protocol},BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT"
        found = {"listener.security.protocol.map": listeners}
        if protocol.tls:
            found |= _tls_properties(directory, "required" if self.kind is Kind.MTLS else "none")
        if protocol.sasl:
            found |= self._sasl_properties()
        if self.authorizer is Authorizer.STANDARD:
            found |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
            }
        return found

    def scram_arguments(self) -> list[str]:
        """What the format command needs to know the users from the first start on."""
        if not self.kind.protocol.sasl:
            return []
        found: list[str] = []
        for user, password in self.users.items():
            for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512):
                found += ["--add-scram", f"{mechanism}=[name={user},password={password}]"]
        return found

    def client(self, directory: Path, user: str, mechanism: Mechanism) -> Security:
        """A client's side, as `user`; `mechanism` matters with SASL only."""
        protocol = self.kind.protocol
        own = directory / f"{user}.pem" if self.kind is Kind.MTLS else None
        oauth = mechanism is Mechanism.OAUTHBEARER
        return Security(
            protocol=protocol,
            mechanism=mechanism if protocol.sasl else None,
            username=user if protocol.sasl else None,
            password_file=str(directory / f"{user}.password")
            if protocol.sasl and not oauth
            else None,
            token_file=str(directory / f"{user}.token") if protocol.sasl and oauth else None,
            ca_file=str(directory / "ca.pem") if protocol.tls else None,
            cert_file=str(own) if own else None,
            key_file=str(own.with_suffix(".key")) if own else None,
        )

    def _sasl_properties(self) -> dict[str, str]:
        known = " ".join(f'user_{user}="{password}"' for user, password in self.users.items())
        logins = {
            Mechanism.PLAIN: f"{_JAAS}.plain.PlainLoginModule required {known};",
            Mechanism.SCRAM_SHA_256: f"{_JAAS}.scram.ScramLoginModule required;",
            Mechanism.SCRAM_SHA_512: f"{_JAAS}.scram.ScramLoginModule required;",
            Mechanism.OAUTHBEARER: f"{_JAAS}.oauthbearer.OAuthBearerLoginModule required "
            f'unsecuredLoginStringClaim_sub="{SUPER_USER}";',
        }
        return {f"{_PREFIX}sasl.enabled.mechanisms": ",".join(logins)} | {
            f"{_PREFIX}{mechanism.lower()}.sasl.jaas.config": login
            for mechanism, login in logins.items()
        }


def _tls_properties(directory: Path, client_auth: str) -> dict[str, str]:
    return {
        f"{_PREFIX}ssl.keystore.type": "PEM",
        f"{_PREFIX}ssl.keystore.location": str(directory / "broker.pem"),
        f"{_PREFIX}ssl.truststore.type": "PEM",
        f"{_PREFIX}ssl.truststore.location": str(directory / "ca.pem"),
        f"{_PREFIX}ssl.client.auth": client_auth,
        # User:alice rather than User:CN=alice
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
    }
