"""Rules, dashboards and their provisioning speak of what exists: metrics, services, sources."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import cast

import pytest
import yaml

from mirrorfleet.runtime import metric_names
from mirrorfleet.runtime.metric_names import Kind, Metric
from tests.architecture.source import ROOT, tracked

Yaml = dict[str, object]
RULES = sorted((ROOT / "deploy/rules").glob("*.yml"))
DASHBOARDS = sorted((ROOT / "deploy/dashboards").glob("*.json"))
METRIC = re.compile(r"(?<![:\w])mirrorfleet_[a-z0-9_]+")


def known_series() -> set[str]:
    """What a scrape has: a histogram is three series a label set."""
    table = [each for each in vars(metric_names).values() if isinstance(each, Metric)]
    plain = {each.name for each in table if each.kind is not Kind.HISTOGRAM}
    wide = {each.name for each in table if each.kind is Kind.HISTOGRAM}
    return plain | {f"{name}_{part}" for name in wide for part in ("bucket", "sum", "count")}


def load(path: str) -> Yaml:
    loaded: Yaml = yaml.safe_load((ROOT / path).read_text("utf-8"))
    return loaded


def rules() -> list[dict[str, object]]:
    groups = [
        group
        for file in RULES
        for group in cast("list[Yaml]", yaml.safe_load(file.read_text("utf-8"))["groups"])
    ]
    return [rule for group in groups for rule in cast("list[dict[str, object]]", group["rules"])]


def expressions(dashboard: Path) -> list[str]:
    panels = json.loads(dashboard.read_text("utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_there_are_rules_and_dashboards() -> None:
    assert RULES
    assert DASHBOARDS


def test_every_metric_of_the_table_is_written_somewhere() -> None:
    code = "".join(file.read_text("utf-8") for file in tracked("libs/*.py", "services/*.py"))
    table = [name for name, each in vars(metric_names).items() if isinstance(each, Metric)]

    # once in the table itself
    assert [name for name in table if len(re.findall(rf"\b{name}\b", code)) < 2] == []


def test_rules_read_metrics_that_services_have() -> None:
    read = {name for rule in rules() for name in METRIC.findall(str(rule["expr"]))}

    assert read - known_series() == set()


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.name)
def test_a_dashboard_reads_metrics_that_services_have(dashboard: Path) -> None:
    read = {name for text in expressions(dashboard) for name in METRIC.findall(text)}

    assert read
    assert read - known_series() == set()


def test_no_lag_is_added_up_without_a_look_at_what_is_not_known() -> None:
    """Who does not know its part of a topic tells no lag: what the others tell is no sum of it."""
    asked = [str(rule["expr"]) for rule in rules()]
    asked += [text for dashboard in DASHBOARDS for text in expressions(dashboard)]
    lags = {"mirrorfleet_record_lag", "mirrorfleet_lag_records"}
    sums = [text for text in asked if lags & set(METRIC.findall(text))]

    assert sums
    assert [text for text in sums if not re.search(r"unless sum by .*_unknown\b.* > 0", text)] == []


def test_dashboards_read_recorded_numbers_that_are_recorded() -> None:
    recorded = {str(rule["record"]) for rule in rules() if "record" in rule}
    read = {
        name
        for dashboard in DASHBOARDS
        for text in expressions(dashboard)
        for name in re.findall(r"\w+(?::\w+)+", text)
    }

    assert read - recorded == set()


def test_every_alert_says_what_to_do_next_and_has_a_test() -> None:
    alerts = {str(rule["alert"]): rule for rule in rules() if "alert" in rule}
    tests = load("tests/observability/rules.test.yml")["tests"]
    tested = {
        str(case["alertname"])
        for test in cast("list[dict[str, list[dict[str, object]]]]", tests)
        for case in test.get("alert_rule_test", [])
        if case["exp_alerts"]
    }

    assert set(alerts) == tested
    for name, rule in alerts.items():
        assert set(cast("dict[str, str]", rule["annotations"])) == {"summary", "next"}, name


def test_prometheus_scrapes_every_service_of_the_compose_file() -> None:
    services = cast("dict[str, dict[str, list[str]]]", load("docker-compose.yml")["services"])
    ours = {
        name
        for name, service in services.items()
        if any(word.startswith("services.") for word in service.get("command", []))
    }
    jobs = cast("list[dict[str, list[dict[str, list[str]]]]]", load(PROMETHEUS)["scrape_configs"])

    assert set(jobs[0]["dns_sd_configs"][0]["names"]) == ours


def test_dashboards_ask_the_data_source_that_is_provisioned() -> None:
    sources = load("deploy/grafana/datasources/mirrorfleet.yaml")["datasources"]
    provisioned = {source["uid"] for source in cast("list[dict[str, str]]", sources)}
    asked = {
        uid
        for dashboard in DASHBOARDS
        for uid in re.findall(r'"uid": "(prometheus|jaeger)"', dashboard.read_text("utf-8"))
    }

    assert provisioned == {"prometheus", "jaeger"}
    assert asked <= provisioned


def test_grafana_finds_the_dashboards_where_compose_puts_them() -> None:
    services = cast("dict[str, dict[str, list[str]]]", load("docker-compose.yml")["services"])
    providers = load("deploy/grafana/dashboards/mirrorfleet.yaml")["providers"]
    (provider,) = cast("list[dict[str, dict[str, str]]]", providers)

    mount = f"./deploy/dashboards:{provider['options']['path']}:ro"
    assert mount in services["grafana"]["volumes"]


def test_traces_go_from_the_services_to_the_collector_to_jaeger() -> None:
    collector = load("deploy/otel/collector.yaml")
    services = cast("dict[str, dict[str, dict[str, str]]]", load("docker-compose.yml")["services"])

    endpoint = services["mirror-west"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert endpoint == "${MIRRORFLEET_OTLP_ENDPOINT:-http://otel-collector:4318}"
    assert {"otel-collector", "jaeger"} <= set(services)
    assert "0.0.0.0:4318" in str(collector["receivers"])
    assert "jaeger:4317" in str(collector["exporters"])


PROMETHEUS = "deploy/prometheus/prometheus.yml"
