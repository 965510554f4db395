"""Where traces go: the estate, the standard variables, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mirrorfleet.config.load import parse_estate
from mirrorfleet.config.telemetry import TelemetrySettings, header_secrets, telemetry_settings
from mirrorfleet.core.errors import ConfigError

BASE = "estate: e\nclusters:\n  east: {bootstrap: 'h:1'}\n"
AT = "http://collector:4318"


def settings(more: str = "", env: Mapping[str, str] | None = None) -> TelemetrySettings | None:
    return telemetry_settings(
        parse_estate(BASE + more, "estate.yaml", directory=Path(), env=env or {})
    )


def test_without_an_address_traces_are_off() -> None:
    assert settings() is None
    assert settings("telemetry: {traces_per_second: 5}") is None


@pytest.mark.parametrize(
    ("more", "env", "endpoint"),
    [
        (f"telemetry: {{endpoint: '{AT}'}}", {}, f"{AT}/v1/traces"),
        (f"telemetry: {{endpoint: '{AT}/otlp/'}}", {}, f"{AT}/otlp/v1/traces"),
        (f"telemetry: {{endpoint: '{AT}/v1/traces'}}", {}, f"{AT}/v1/traces"),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": AT}, f"{AT}/v1/traces"),
        ("", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{AT}/in"}, f"{AT}/in"),
        (
            f"telemetry: {{endpoint: '{AT}'}}",
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://other:1"},
            f"{AT}/v1/traces",
        ),
    ],
)
def test_the_estate_comes_first_then_the_standard_variables(
    more: str, env: dict[str, str], endpoint: str
) -> None:
    found = settings(more, env)

    assert found is not None
    assert (found.endpoint, found.traces_per_second) == (endpoint, 1.0)


def test_headers_are_secrets_from_the_environment_and_never_shown() -> None:
    more = f"telemetry: {{endpoint: '{AT}', headers: {{authorization: {{env: TOKEN}}}}}}"

    found = settings(more, {"TOKEN": "hunter22"})

    assert found is not None
    assert dict(found.headers()) == {"authorization": "hunter22"}
    assert "hunter22" not in repr(found)
    with pytest.raises(ConfigError, match=r"telemetry.headers.authorization: .*TOKEN is not set"):
        settings(more)


@pytest.mark.parametrize("value", ["hunter22\nmore", "hunter\x0022", " hunter22", "hunter22€"])
def test_a_header_that_cannot_be_sent_is_refused_by_its_name_only(value: str) -> None:
    more = f"telemetry: {{endpoint: '{AT}', headers: {{authorization: {{env: TOKEN}}}}}}"

    with pytest.raises(ConfigError, match=r"telemetry\.headers\.authorization: ") as caught:
        settings(more, {"TOKEN": value})

    assert "hunter" not in str(caught.value)
    assert caught.value.line == 4


@pytest.mark.parametrize("name", ["a b", "a:", "", "ä", "x\\ny"])
def test_a_name_that_no_header_may_have_is_refused(name: str) -> None:
    header = f'"{name}": {{env: TOKEN}}'
    with pytest.raises(ConfigError, match=r"estate\.yaml:4 telemetry\.headers") as caught:
        settings(f"telemetry: {{endpoint: '{AT}', headers: {{{header}}}}}", {"TOKEN": "t"})
    assert "only letters, digits and " in str(caught.value)


def test_the_sdk_can_be_disabled_as_everywhere() -> None:
    env = {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": AT}

    assert settings("", env) is None


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("collector:4318", "is not http://host:port"),
        ("grpc://collector:4317", "is not http://host:port"),
        ("http://", "is not http://host:port"),
        ("http://collector:port", "is not http://host:port"),
        ("http://me:secret@collector", "must not hold a user"),
    ],
)
def test_an_address_that_is_none_is_refused_with_its_place(endpoint: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"estate.yaml:4 telemetry.endpoint: .*{why}"):
        settings(f"telemetry: {{endpoint: '{endpoint}'}}")
    with pytest.raises(ConfigError, match=f"variable OTEL_EXPORTER_OTLP_ENDPOINT: .*{why}"):
        settings("", {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})


@pytest.mark.parametrize(
    "endpoint",
    [
        "user:hunter2@collector:4318",
        "https://user:hunter2@collector:443180",
        "https://collector:4318?api-key=hunter2",
        "https://collector:4318/v1/traces?api-key=hunter2",
        "https://collector:4318#hunter2",
    ],
)
def test_an_address_that_may_hold_a_secret_is_refused_and_not_repeated(endpoint: str) -> None:
    why = r"an address must not hold a user, '\?' or '#'; use headers"
    with pytest.raises(ConfigError, match=f"estate.yaml:4 telemetry.endpoint: {why}") as in_file:
        settings(f"telemetry: {{endpoint: '{endpoint}'}}")
    for variable in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        with pytest.raises(ConfigError, match=f"variable {variable}: {why}") as in_environment:
            settings("", {variable: endpoint})
        assert "hunter2" not in str(in_environment.value)
    assert "hunter2" not in str(in_file.value)


def test_a_protocol_that_is_not_spoken_is_refused() -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": AT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}

    with pytest.raises(ConfigError, match="traces are sent as http/protobuf, not as 'grpc'"):
        settings("", env)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("telemetry: {endpoimt: 'http://a'}", "unknown key; did you mean 'endpoint'?"),
        ("telemetry: {traces_per_second: 1000}", "less than or equal to 100"),
        ("telemetry: {headers: {authorization: plain}}", "a secret is never written here"),
    ],
)
def test_a_wrong_subtree_is_refused_with_its_line(more: str, why: str) -> None:
    with pytest.raises(ConfigError, match=r"estate\.yaml:4 telemetry") as caught:
        settings(more)

    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "secrets"),
    [
        ("authorization=Bearer%20hunter2,x-scope=all", ["Bearer hunter2", "all"]),
        ("authorization: Bearer hunter2", ["authorization: Bearer hunter2"]),
    ],
)
def test_headers_of_opentelemetrys_own_variables_are_secret_also_where_they_are_wrong(
    headers: str, secrets: list[str]
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"):
        assert [one for one in header_secrets({name: headers}) if one] == secrets


@pytest.mark.parametrize("written", ["yes", "no"])
def test_a_switch_is_no_number_of_traces(written: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(f"telemetry: {{traces_per_second: {written}}}")

    assert str(caught.value) == (
        "estate.yaml:4 telemetry.traces_per_second: should be a number, not true or false."
    )
