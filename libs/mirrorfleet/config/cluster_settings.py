"""What a client needs to know to reach one cluster: addresses, security, deadlines.

Plain frozen values without I/O except `Security.read_password`, which reads the password file at
each call so that a rotated secret is used by the next connection. Secrets never show in `repr`.
What changes is where the brokers were seen last: all clients with the same settings find them there
when none is any more where it was, nor at `bootstrap`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Final

from mirrorfleet.config.redaction import redacted_repr
from mirrorfleet.core.errors import ConfigError, ConnectionLostError
from mirrorfleet.core.ids import ClusterAlias


class Protocol(StrEnum):
    """Kafka's `security.protocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self in {Protocol.SSL, Protocol.SASL_SSL}

    @property
    def sasl(self) -> bool:
        """Whether the client authenticates with SASL."""
        return self in {Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL}


class Mechanism(StrEnum):
    """Kafka's `sasl.mechanism`, the ones that this client speaks."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


def acl_principal(protocol: Protocol, username: str | None, cert_file: str | None) -> str | None:
    """A client's principal in ACLs; None: only the cluster knows whom token or certificate mean."""
    if username is not None:
        return f"User:{username}"
    return None if protocol.sasl or cert_file is not None else "User:ANONYMOUS"


_SAFE_SECURITY: Final = frozenset(
    {
        "protocol",
        "mechanism",
        "username",
        "password_file",
        "token_file",
        "token_url",
        "token_client_id",
        "token_client_secret_file",
        "token_scope",
        "ca_file",
        "cert_file",
        "key_file",
        "key_password_file",
        "check_hostname",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Security:
    """How to encrypt and authenticate; the default is neither.

    `password` or `password_file`. OAUTHBEARER takes its token from `token_file`, or from
    `token_url` by client credentials. With a token, or a certificate alone, `username` only says
    whom the cluster takes its owner for. Certificates and keys are PEM files. Files are read again
    for each connection; of those with a value beside them it is what they held at the start.
    """

    protocol: Protocol = Protocol.PLAINTEXT
    mechanism: Mechanism | None = None
    username: str | None = None
    password: str | None = None
    password_file: str | None = None
    token_file: str | None = None
    token_url: str | None = None
    token_client_id: str | None = None
    token_client_secret: str | None = None
    token_client_secret_file: str | None = None
    token_scope: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = None
    key_password_file: str | None = None
    check_hostname: bool = True

    @property
    def principal(self) -> str:
        """Who we are to the cluster, for messages about rights: nothing is decided by it."""
        if self.acl_principal is not None:
            return self.acl_principal
        if self.protocol.sasl:
            return f"the bearer of the token of {self.token_file or self.token_url}"
        return f"the owner of certificate {self.cert_file}"

    @property
    def acl_principal(self) -> str | None:
        """Who we are in the cluster's ACLs, as far as the estate says it."""
        return acl_principal(self.protocol, self.username, self.cert_file)

    def read_password(self) -> str:
        """The password as it is now.

        Raises: ConfigError when there is none, or its file cannot be read; ConnectionLostError
        when that is empty, as it is for a moment when it is written in place.
        """
        if self.password_file is not None:
            return _held_by(self.password_file, "password")
        if self.password is None:
            raise ConfigError("no password is configured.", path="security.password")
        return self.password

    def secrets(self) -> tuple[str, ...]:
        """What must not be logged, as it is now. Raises: as `read_password`."""
        password = self.password if self.password_file is None else self.read_password()
        found = (password, self.read_client_secret(), self.read_key_password())
        return tuple(secret for secret in found if secret)

    def read_client_secret(self) -> str | None:
        """The secret for `token_url` as it is now. Raises: of its file, as `read_password`."""
        file = self.token_client_secret_file
        return self.token_client_secret if file is None else _held_by(file, "token_client_secret")

    def read_key_password(self) -> str | None:
        """The password of `key_file` as it is now. Raises: ConfigError of its file."""
        file = self.key_password_file
        return self.key_password if file is None else read_secret_file(file)

    def __repr__(self) -> str:
        shown = [(item.name, getattr(self, item.name)) for item in fields(self)]
        return redacted_repr("Security", shown, _SAFE_SECURITY)


def _held_by(file: str, key: str) -> str:
    """What is in the file of a secret. Raises: as `Security.read_password`."""
    found = read_secret_file(file)
    if not found:
        hint = f"Check what writes security.{key}."
        raise ConnectionLostError(f"secret file {file} is empty.", hint=hint)
    return found


@dataclass(slots=True)
class LastSeen:
    """Where the brokers of a cluster were when it told of them last, as host:port."""

    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """How to reach one cluster. `bootstrap` is host:port, at least one."""

    alias: ClusterAlias
    bootstrap: tuple[str, ...]
    security: Security = field(default_factory=Security)
    client_id: str = "mirrorfleet"
    rack: str | None = None
    request_timeout_s: float = 30.0
    connect_timeout_s: float = 10.0
    last_seen: LastSeen = field(default_factory=LastSeen, compare=False, repr=False)

    @property
    def addresses(self) -> tuple[str, ...]:
        """All that is worth a try: what the estate says first."""
        return tuple(dict.fromkeys((*self.bootstrap, *self.last_seen.addresses)))


def read_secret_file(path: str) -> str:
    """The content of a secret file without its last line end.

    Raises: ConfigError when the file cannot be read; the message never has its content.
    """
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        text = f"secret file {path}: {_reason(error)}."
        raise ConfigError(text, hint="Check path and mode.") from None


def _reason(error: OSError | ValueError) -> str:
    """Not in the error's own words: those about bytes that are no text tell one of them."""
    if isinstance(error, OSError):
        return error.strerror or "not readable"
    return "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "no name of a file"
