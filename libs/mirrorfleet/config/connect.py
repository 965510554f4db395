"""From the estate to what a client needs: secrets are looked up here, and only for one cluster.

A fleet therefore needs the secrets of its own links only. A password in a file stays a path, so
that each new connection reads it again.
"""

from __future__ import annotations

from mirrorfleet.config.cluster_settings import ClusterSettings, Security, read_secret_file
from mirrorfleet.config.model import Estate
from mirrorfleet.config.security import Secret, SecurityModel
from mirrorfleet.core.errors import ConfigError
from mirrorfleet.core.ids import ClusterAlias


def cluster_settings(estate: Estate, alias: str, client_id: str = "mirrorfleet") -> ClusterSettings:
    """How to reach the cluster.

    Raises: ConfigError for an unknown alias, or a secret or file that is not there.
    """
    cluster = estate.cluster(alias)
    return ClusterSettings(
        alias=ClusterAlias(alias),
        bootstrap=cluster.bootstrap,
        security=_security(estate, alias, cluster.security),
        client_id=client_id,
        rack=cluster.rack,
    )


def _security(estate: Estate, alias: str, model: SecurityModel) -> Security:
    path = f"clusters.{alias}.security"
    password = model.password
    password_file = None if password is None else password.file
    if password_file is not None:
        read_secret(estate, f"{path}.password", Secret(file=password_file))
        password = None
    return Security(
        protocol=model.protocol,
        mechanism=model.mechanism,
        username=model.username,
        password=read_secret(estate, f"{path}.password", password),
        password_file=_file(estate, f"{path}.password", password_file),
        token_file=_file(estate, f"{path}.token_file", model.token_file),
        token_url=model.token_url,
        token_client_id=model.token_client_id,
        token_client_secret=read_secret(
            estate, f"{path}.token_client_secret", model.token_client_secret
        ),
        token_client_secret_file=_secret_file(estate, path, model.token_client_secret),
        token_scope=model.token_scope,
        ca_file=_file(estate, f"{path}.ca_file", model.ca_file),
        cert_file=_file(estate, f"{path}.cert_file", model.cert_file),
        key_file=_file(estate, f"{path}.key_file", model.key_file),
        key_password=read_secret(estate, f"{path}.key_password", model.key_password),
        key_password_file=_secret_file(estate, path, model.key_password),
        check_hostname=model.check_hostname,
    )


def read_secret(estate: Estate, path: str, secret: Secret | None) -> str | None:
    """The secret that stands at `path` of the estate; None where none stands.

    For the start only, when it must not be empty: one that is being rotated may be for a moment.
    Raises: ConfigError when it is not where the estate says.
    """
    if secret is None:
        return None
    if secret.file is not None:
        try:
            value = read_secret_file(str(estate.directory / secret.file))
        except ConfigError as error:
            raise _wrong(estate, path, error.message, error.hint) from None
        if not value:
            message = f"secret file {estate.directory / secret.file} is empty."
            raise _wrong(estate, path, message, "Write the secret into it.")
        return value
    name = secret.env or ""
    value = estate.environment.get(name, "").rstrip("\r\n")  # as of files: `echo` adds one
    if not value:
        raise _wrong(estate, path, f"environment variable {name} is not set.", f"export {name}=...")
    return value


def read_header(estate: Estate, path: str, secret: Secret | None) -> str | None:
    """The same for an HTTP header; of what none can have its reader would only say: wrong.

    Raises: ConfigError.
    """
    value = read_secret(estate, path, secret)
    if value is not None and not (
        value.isascii() and value.isprintable() and value == value.strip()
    ):
        raise ConfigError(
            f"{path}: has a character or an outer space that no header may have.",
            path=path,
            line=estate.line_of(path),
            hint="Check the variable or the file: one line of printable ASCII.",
        )
    return value


def _secret_file(estate: Estate, path: str, secret: Secret | None) -> str | None:
    return None if secret is None else _file(estate, path, secret.file)


def _file(estate: Estate, path: str, name: str | None) -> str | None:
    if name is None:
        return None
    file = estate.directory / name
    if not file.is_file():
        raise _wrong(estate, path, f"there is no file {file}.", "Check the path.")
    return str(file)


def _wrong(estate: Estate, path: str, message: str, hint: str) -> ConfigError:
    line = estate.line_of(path)
    return ConfigError(f"line {line} {path}: {message}", path=path, line=line, hint=hint)
