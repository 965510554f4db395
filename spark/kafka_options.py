"""A cluster's settings in the words of Kafka's Java client.

PEM files are read here and handed over as text (KIP-651), so that executors need no files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from mirrorfleet.config.cluster_settings import Mechanism, Protocol
from mirrorfleet.core.errors import ConfigError

if TYPE_CHECKING:
    from mirrorfleet.config.cluster_settings import ClusterSettings, Security

_MODULES: Final = {
    Mechanism.PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    Mechanism.SCRAM_SHA_256: "org.apache.kafka.common.security.scram.ScramLoginModule",
    Mechanism.SCRAM_SHA_512: "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"


def client_options(settings: ClusterSettings) -> dict[str, str]:
    """Properties of a Java client, without Spark's prefix `kafka.`.

    Raises: ConfigError when a password or token file cannot be read.
    """
    options = {"bootstrap.servers": ",".join(settings.bootstrap)}
    security = settings.security
    if security.protocol is Protocol.PLAINTEXT:
        return options
    options["security.protocol"] = security.protocol
    if security.protocol.tls:
        options |= _tls(security)
    if security.protocol.sasl and security.mechanism is not None:
        options |= _sasl(security, security.mechanism)
    return options


def _tls(security: Security) -> dict[str, str]:
    options: dict[str, str] = {}
    if security.ca_file is not None:
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.certificates"] = _text(security.ca_file)
    if security.cert_file is not None:
        options["ssl.keystore.type"] = "PEM"
        options["ssl.keystore.certificate.chain"] = _text(security.cert_file)
        options["ssl.keystore.key"] = _text(security.key_file or security.cert_file)
    if security.key_password is not None:
        options["ssl.key.password"] = security.key_password
    if not security.check_hostname:
        options["ssl.endpoint.identification.algorithm"] = ""
    return options


def _sasl(security: Security, mechanism: Mechanism) -> dict[str, str]:
    if mechanism is Mechanism.OAUTHBEARER:
        return {"sasl.mechanism": mechanism, **_oauth(security)}
    words = {"username": security.username or "", "password": security.read_password()}
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(_MODULES[mechanism], words)}


def _oauth(security: Security) -> dict[str, str]:
    url = security.token_url
    if url is None and security.token_file is not None:
        url = Path(security.token_file).absolute().as_uri()
    if url is None:
        raise ConfigError("OAUTHBEARER needs token_file or token_url.", path="security")
    words = {
        "clientId": security.token_client_id,
        "clientSecret": security.token_client_secret,
        "scope": security.token_scope,
    }
    given = {name: word for name, word in words.items() if word is not None}
    return {
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": _jaas(f"{_OAUTH}.OAuthBearerLoginModule", given),
    }


def _jaas(module: str, words: dict[str, str]) -> str:
    quoted = [
        f'{name}="{word.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"'
        for name, word in words.items()
    ]
    return " ".join([module, "required", *quoted]) + ";"


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}.", hint="Check path and mode.") from None
