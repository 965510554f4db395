"""M7: there is an `mm2.properties`, and MirrorMaker 2 has copied for years.

Here: `import mm2` makes an estate of it and says what is not as it was. With `adopt` and `latest`,
as docs/migrating.md has it, copying goes on exactly where MirrorMaker 2 ended, into its copies.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

import pytest
import yaml

from services.cli.__main__ import main
from services.local.region import DEFAULT_KAFKA, RegionSpec, installed
from tests.faultkit.process import RunningProcess, service
from tests.faultkit.regions import address
from tests.faultkit.waiting import wait_until
from tests.integration.mirror.making import create, numbered, put, seen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from services.local.region import Region
    from tests.conftest import Regions

Captured = pytest.CaptureFixture[str]

ORDERS, COPY, LEFT_OUT = "orders", "east.orders", "audit"
PARTITIONS: Final = 2
STEP_S: Final = 120.0
PROPERTIES = """
clusters = east, west
east.bootstrap.servers = {east}
west.bootstrap.servers = {west}
east->west.enabled = true
east->west.topics = ord.*, carts
replication.factor = 1
tasks.max = 2
"""
ONE_BROKER: Final = (
    "checkpoints.topic",
    "heartbeats.topic",
    "offset-syncs.topic",
    "offset.storage",
    "status.storage",
    "config.storage",
)


def fill(east: Region, first: int, end: int) -> None:
    """Records for each partition, and for a topic that nobody copies."""
    for number in range(PARTITIONS):
        put(east, ORDERS, numbered(first, end, partition=number))
    put(east, LEFT_OUT, numbered(first, end))


def wait_copied(east: Region, west: Region) -> None:
    """Wait until the copy has what the source has, each once and in order."""

    def told(region: Region, topic: str) -> list[list[tuple[bytes | None, bytes | None]]]:
        each = (seen(region, topic, number) for number in range(PARTITIONS))
        return [[(one.key, one.value) for one in records] for records in each]

    wait_until(
        lambda: told(west, COPY) == told(east, ORDERS),
        deadline_s=STEP_S,
        what=f"{COPY} to be {ORDERS}",
        ignoring=(AssertionError,),  # it is not there yet
    )


@contextmanager
def mirror_maker(file: Path) -> Iterator[RunningProcess]:
    """MirrorMaker 2 itself."""
    java, jars = installed(DEFAULT_KAFKA)
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m"]
    quick += ["-Dlog4j2.level=WARN", f"-Djava.io.tmpdir={file.parent}"]
    main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
    command = [java, *quick, "-cp", f"{jars}/*", main_class, str(file)]
    process = RunningProcess("mm2", command, log=file.with_suffix(".log"))
    try:
        yield process
    finally:
        process.clean_up()


def imported(file: Path, capsys: Captured) -> dict[str, object]:
    """The estate that the command prints."""
    assert main(["import", "mm2", str(file), "--name", "m7"]) == 0
    shown = capsys.readouterr()
    assert (
        "copies that MirrorMaker 2 made are refused until the rule says `adopt: true`" in shown.err
    )
    assert "tasks.max" in shown.err
    found: dict[str, object] = yaml.safe_load(shown.out)
    return found


def begun(capsys: Captured) -> int:
    """How many partitions of the topic have a position; 0 while one of the fleet has none."""
    code = main(["positions", "export", "--target", "west"])
    lines = capsys.readouterr().out.splitlines()
    return 0 if code else sum(ORDERS in line for line in lines)


@pytest.mark.timeout(500)
def test_m7_copying_goes_on_where_mirror_maker_ended_by_an_estate_made_of_its_properties(
    regions: Regions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    east, west = regions(RegionSpec(name="east"), RegionSpec(name="west"))
    file, estate = tmp_path / "mm2.properties", tmp_path / "estate.yaml"
    one = "".join(f"{each}.replication.factor = 1\n" for each in ONE_BROKER)
    file.write_text(PROPERTIES.format(east=address(east), west=address(west)) + one)
    for topic, partitions in ((ORDERS, PARTITIONS), (LEFT_OUT, 1)):
        create(east, topic, partitions)
    fill(east, 0, 500)
    with mirror_maker(file):
        wait_copied(east, west)

    found = imported(file, capsys)
    (link,) = cast("list[dict[str, list[dict[str, object]]]]", found["links"])
    link["rules"][0] |= {"adopt": True, "start": "latest"}
    estate.write_text(yaml.safe_dump(found))
    monkeypatch.setenv("MIRRORFLEET_ESTATE", str(estate))
    with (
        service("sync", estate=estate, target="west", logs=tmp_path / "logs"),
        service("mirror", estate=estate, target="west", logs=tmp_path / "logs"),
    ):
        wait_until(
            lambda: begun(capsys) == PARTITIONS,
            deadline_s=STEP_S,
            what="each partition to have begun",
        )
        fill(east, 500, 1_000)
        wait_copied(east, west)
        capsys.readouterr()
        with pytest.raises(AssertionError):
            seen(west, f"east.{LEFT_OUT}")
