"""Whatever the collector does, copying goes on, a counter says so, and the log stays short."""

from __future__ import annotations

import re

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its public names, not in its __all__
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.faultkit.collector import Mood
from tests.faultkit.process import ServiceProcess
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.telemetry.conftest import Chain

pytestmark = pytest.mark.timeout(300)  # three regions start in the first one's

PROGRESS = "__mirrorfleet.b.progress"
HERE = {"link": "b->c"}


def metric(process: ServiceProcess, name: str, **labels: str) -> float:
    """A sample of `/metrics`, 0 when it is not there."""
    wanted = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    pattern = rf"^mirrorfleet_{name}\{{{re.escape(wanted)}\}} (\S+)$"
    found = re.search(pattern, process.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def spans(process: ServiceProcess, outcome: str) -> float:
    return metric(process, "spans_total", outcome=outcome)


def said(process: ServiceProcess, message: str) -> int:
    return process.text().count(message)


def test_a_collector_that_fails_costs_nothing_but_its_traces(chain: Chain) -> None:
    mirror = chain.mirrors["b"]
    chain.collector.mood = Mood.FAILING
    lost = spans(mirror, "failed")

    for count in (5, 10):
        wait_until(
            lambda: chain.arrived_ns(chain.produce()) and spans(mirror, "failed") >= lost + count,  # noqa: B023 - awaited here
            deadline_s=20,
            what="spans that failed",
        )
    chain.collector.mood = Mood.TAKING
    chain.trace(chain.produce())

    assert said(mirror, "traces are not delivered") == 1
    again = "traces are delivered again"  # said after the answer, when the spans are here already
    wait_until(lambda: said(mirror, again) > 0, deadline_s=20, what=again)
    assert said(mirror, again) == 1
    assert said(mirror, "opentelemetry") == 0


def test_a_collector_that_hangs_holds_up_nobody_not_even_the_end(chain: Chain) -> None:
    chain.collector.mood = Mood.HANGING
    asked = chain.collector.requests
    arrived = chain.arrived_ns(chain.produce())
    wait_until(lambda: chain.collector.requests > asked, deadline_s=10, what="a request that hangs")

    def took_ns() -> int:
        sent = chain.produce()
        return chain.arrived_ns(sent) - sent.began_ns

    # a broker that stands still for a moment holds up one of them
    assert sorted(took_ns() for _ in range(3))[1] < 5_000_000_000
    assert arrived
    chain.start_mirror("b")
    chain.collector.mood = Mood.TAKING
    chain.collector.release.set()
    chain.arrived_ns(chain.produce())


def test_without_the_right_to_read_the_hop_before_nothing_is_joined(chain: Chain) -> None:
    admin = AdminClient({"bootstrap.servers": address(chain.regions["b"])})
    rights = (ResourceType.TOPIC, PROGRESS, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
    only_write = AclBinding(*rights, AclOperation.WRITE, AclPermissionType.ALLOW)
    admin.create_acls([only_write])[only_write].result(30)
    try:
        again = chain.start_mirror("c")
        refused = {**HERE, "cause": "not-allowed"}
        wait_until(
            lambda: metric(again, "trace_upstream_failures_total", **refused) == 1,
            deadline_s=20,
            what="the refusal to be counted",
        )
        chain.arrived_ns(chain.produce())

        assert said(again, "traces of the hop before are not joined") == 1
        assert metric(again, "traces_total", **HERE, origin="before") == 0
    finally:
        everything = AclBindingFilter(*rights, AclOperation.ANY, AclPermissionType.ANY)
        admin.delete_acls([everything])[everything].result(30)
        chain.start_mirror("c")
