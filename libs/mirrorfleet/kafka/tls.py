"""TLS: contexts from PEM files, and errors that say what to do."""

from __future__ import annotations

import ssl

from mirrorfleet.config.cluster_settings import Security
from mirrorfleet.core.errors import AuthenticationError, ConfigError


def make_context(security: Security) -> ssl.SSLContext:
    """A client context. Raises: ConfigError when a file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.cert_file is not None:
            context.load_cert_chain(security.cert_file, security.key_file, security.key_password)
    except OSError as error:
        raise ConfigError(f"TLS files: {error}.", path="security") from error
    context.check_hostname = security.check_hostname
    return context


def explain_tls(peer: str, error: ssl.SSLError, security: Security) -> AuthenticationError:
    """Why the handshake failed."""
    return AuthenticationError(f"{peer}: TLS handshake failed: {error}.")
