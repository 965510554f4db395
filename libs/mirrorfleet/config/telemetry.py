"""Where traces go: from the estate's `telemetry` or the standard OTEL_ variables, ready to use.

Also read by the exporter itself, from the process's environment: OTEL_EXPORTER_OTLP_HEADERS,
_COMPRESSION, _CERTIFICATE (each also as OTEL_EXPORTER_OTLP_TRACES_...), and
OTEL_RESOURCE_ATTRIBUTES; not _TIMEOUT, for the deadline of a delivery is ours. Source of the
names: OpenTelemetry, "OTLP Exporter Configuration".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from mirrorfleet.config.connect import read_header
from mirrorfleet.config.model import Estate, http_url
from mirrorfleet.core.errors import ConfigError

TRACES_PATH: Final = "/v1/traces"
_BASE: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OURS: Final = "http/protobuf"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """`endpoint` is the whole address of the traces; `headers` reads what is secret, as it is now.

    It raises a ConfigError of a file that is missing or empty, as it is while it is written anew.
    """

    endpoint: str
    traces_per_second: float
    headers: Callable[[], Mapping[str, str]] = field(default=dict, repr=False)


def telemetry_settings(estate: Estate) -> TelemetrySettings | None:
    """The settings, or None when traces are off.

    Raises: ConfigError for an address that is none, a secret that is not there or no header, or
    a protocol that is not spoken.
    """
    endpoint = traces_endpoint(estate)
    if endpoint is None:
        return None
    model = estate.telemetry
    _check_protocol(estate.environment)

    def headers() -> Mapping[str, str]:
        return {
            name: read_header(estate, f"telemetry.headers.{name}", secret) or ""
            for name, secret in model.headers.items()
        }

    headers()  # what is wrong with one is said at the start
    return TelemetrySettings(
        endpoint=endpoint,
        traces_per_second=model.traces_per_second,
        headers=headers,
    )


def traces_endpoint(estate: Estate) -> str | None:
    """The whole address; None when traces are off: no address anywhere, or OTEL_SDK_DISABLED.

    Raises: ConfigError for an address that is none.
    """
    model, env = estate.telemetry, estate.environment
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if model.endpoint is not None:
        return _with_path(model.endpoint)
    if env.get(_TRACES):
        return _address(_TRACES, env[_TRACES])
    return _with_path(_address(_BASE, env[_BASE])) if env.get(_BASE) else None


def _with_path(base: str) -> str:
    base = base.rstrip("/")
    return base if base.endswith(TRACES_PATH) else base + TRACES_PATH


def _address(variable: str, value: str) -> str:
    try:
        return http_url(value.strip())
    except ValueError as error:
        raise ConfigError(
            f"environment variable {variable}: {error}.",
            path=variable,
            hint="Correct it, or unset it to run without traces.",
        ) from None


def _check_protocol(env: Mapping[str, str]) -> None:
    asked = next((env[name] for name in _PROTOCOLS if env.get(name)), _OURS)
    if asked != _OURS:
        raise ConfigError(
            f"traces are sent as {_OURS}, not as {asked!r}.",
            path=_PROTOCOLS[-1],
            hint="Unset the variable; collectors take it on port 4318.",
        )


def header_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Values of headers that OpenTelemetry's own variables give: they may be credentials.

    Whole parts as well, for what is written wrongly is logged as it is.
    """
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"):
        for part in environment.get(name, "").split(","):
            _, is_header, value = part.partition("=")
            yield unquote(value).strip() if is_header else part.strip()
