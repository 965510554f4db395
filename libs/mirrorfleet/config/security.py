"""How one cluster is spoken to, as the operator wrote it: models that refuse what does nothing.

A key that nobody reads would be believed: a token without a mechanism logs in as nobody at all.
Secrets are never values here, only where they are: `{env: NAME}` or `{file: path}`.
"""

from __future__ import annotations

from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, model_validator

from mirrorfleet.config.cluster_settings import Mechanism, Protocol, acl_principal

_SENT_AS_IT_IS: Final = {Mechanism.PLAIN: "password", Mechanism.OAUTHBEARER: "token"}
_FOR_TOKEN_URL: Final = ("token_client_id", "token_client_secret", "token_scope")
_FOR_TOKEN: Final = ("token_file", "token_url", *_FOR_TOKEN_URL)
_FOR_SASL: Final = ("mechanism", "username", "password", *_FOR_TOKEN)
_FOR_TLS: Final = ("ca_file", "cert_file", "key_file", "key_password", "check_hostname")
_NO_TOKEN_URL: Final = "token_url is not https://host:port/path"

FilePath = Annotated[StrictStr, Field(min_length=1)]


class Strict(BaseModel):
    """Frozen; keys that are not fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Secret(Strict):
    """Where a secret is. Exactly one of both."""

    env: Annotated[StrictStr, Field(min_length=1)] | None = None
    file: FilePath | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_literal(cls, value: object) -> object:
        if not isinstance(value, (dict, Secret)):
            raise ValueError("a secret is never written here; write {env: NAME} or {file: path}")
        return value

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise ValueError("write either {env: NAME} or {file: path}")
        return self


class SecurityModel(Strict):
    """Encryption and authentication of one cluster; files are PEM, relative to the estate file."""

    protocol: Protocol = Protocol.PLAINTEXT
    mechanism: Mechanism | None = None
    username: StrictStr | None = None
    """Who logs in. With a token, or a certificate and no SASL, whom the cluster takes its owner
    for: exactly what its ACLs have after `User:`, such as a certificate's distinguished name."""
    password: Secret | None = None
    token_file: FilePath | None = None
    token_url: StrictStr | None = None
    token_client_id: StrictStr | None = None
    token_client_secret: Secret | None = None
    token_scope: StrictStr | None = None
    ca_file: FilePath | None = None
    cert_file: FilePath | None = None
    key_file: FilePath | None = None
    key_password: Secret | None = None
    check_hostname: StrictBool = True
    allow_insecure: StrictBool = False

    @property
    def acl_principal(self) -> str | None:
        """Who we are in the cluster's ACLs, as far as it is said."""
        return acl_principal(self.protocol, self.username, self.cert_file)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problem = (
            self._sasl_problem() if self.protocol.sasl else self._no_sasl_problem()
        ) or self._tls_problem()
        if problem is not None:
            raise ValueError(problem)
        return self

    def _sasl_problem(self) -> str | None:
        if self.mechanism is None:
            known = ", ".join(Mechanism)
            return f"protocol {self.protocol} needs a mechanism: {known}"
        oauth = self.mechanism is Mechanism.OAUTHBEARER
        problem = self._token_problem() if oauth else self._password_problem()
        return problem or self._readable_problem() or self._token_url_problem()

    def _token_problem(self) -> str | None:
        """`username` stays: it says which user the token is of, for rights."""
        if (self.token_file is None) == (self.token_url is None):
            return "OAUTHBEARER needs either token_file or token_url"
        if self.token_file is not None:
            idle = self._idle("the token is in token_file", *_FOR_TOKEN_URL)
        elif self.token_client_id is None or self.token_client_secret is None:
            return "token_url needs token_client_id and token_client_secret"
        else:
            idle = None
        idle = idle or self._idle("OAUTHBEARER logs in with a token", "password")
        return idle or self._name_problem()

    def _password_problem(self) -> str | None:
        if self.username is None or self.password is None:
            return f"mechanism {self.mechanism} needs username and password"
        return self._idle(f"mechanism {self.mechanism} has no token", *_FOR_TOKEN)

    def _readable_problem(self) -> str | None:
        """Whoever reads a secret on its way can use it as we do."""
        sent = _SENT_AS_IT_IS.get(self.mechanism) if self.mechanism is not None else None
        if sent is None or self.protocol.tls or self.allow_insecure:
            return None
        return (
            f"{self.mechanism} without TLS sends the {sent} readable;"
            " use SASL_SSL (or allow_insecure)"
        )

    def _token_url_problem(self) -> str | None:
        """A token end point is called with a secret: no cleartext, no credentials in the URL."""
        if self.token_url is None:
            return None
        try:
            url = urlsplit(self.token_url)
            complete = bool(url.hostname) and url.port != 0
        except ValueError:
            return _NO_TOKEN_URL
        if "@" in url.netloc:
            return "token_url must not hold a user; use token_client_id and token_client_secret"
        if url.scheme != "https" and not (url.scheme == "http" and self.allow_insecure):
            return "token_url must be https (or allow_insecure)"
        return None if complete else _NO_TOKEN_URL

    def _no_sasl_problem(self) -> str | None:
        """`username` stays beside a certificate: it says who its owner is, for rights."""
        secure = Protocol.SASL_SSL if self.protocol.tls else Protocol.SASL_PLAINTEXT
        keys = [key for key in _FOR_SASL if key != "username" or self.cert_file is None]
        idle = self._idle(f"protocol {self.protocol} has no SASL", *keys)
        return f"{idle}; did you mean protocol {secure}?" if idle else self._name_problem()

    def _name_problem(self) -> str | None:
        """Nobody logs in with it, so no cluster would say that it is wrong."""
        name = self.username
        if name is None or (name and not name.startswith("User:")):
            return None
        return "username is what ACLs have after User:, without it"

    def _tls_problem(self) -> str | None:
        if (self.cert_file is None) != (self.key_file is None):
            return "cert_file and key_file belong together"
        if not self.protocol.tls:
            return self._idle(f"protocol {self.protocol} has no TLS", *_FOR_TLS)
        if self.key_file is None:
            return self._idle("there is no key_file", "key_password")
        return None

    def _idle(self, why: str, *keys: str) -> str | None:
        """Names those of `keys` that are written: nobody would read them, or say so."""
        fields = type(self).model_fields
        idle = [key for key in keys if getattr(self, key) != fields[key].default]
        if not idle:
            return None
        return f"{why}, so {' and '.join(idle)} {'do' if len(idle) > 1 else 'does'} nothing"
