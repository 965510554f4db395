from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from services.local import __main__, pair
from services.local.broker import LocalError
from services.local.pair import with_ports
from services.local.region import Region, RegionSpec

SPECS = (RegionSpec(name="east", brokers=2), RegionSpec(name="west"))


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    ports: set[int] = set()
    monkeypatch.setattr(pair, "is_free", lambda port: port not in ports)
    return ports


def ports_of(specs: list[RegionSpec]) -> list[int]:
    return [spec.port for spec in specs]


def test_the_usual_ports_are_19092_and_29092(taken: set[int]) -> None:
    assert ports_of(with_ports(SPECS, "")) == [19092, 29092]


def test_a_usual_port_that_is_taken_gives_way_and_says_so(
    taken: set[int], capsys: pytest.CaptureFixture[str]
) -> None:
    taken.add(19093)

    assert ports_of(with_ports(SPECS, "")) == [0, 29092]
    assert capsys.readouterr().err == "east: port 19093 is taken, a free one is used\n"


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(taken: set[int]) -> None:
    taken.add(9192)

    with pytest.raises(LocalError, match=r"port 9192 of 127\.0\.0\.1 was asked for") as caught:
        with_ports(SPECS, "9092,9192")

    assert "--ports auto" in caught.value.hint


def test_auto_takes_any_ports(taken: set[int]) -> None:
    assert ports_of(with_ports(SPECS, "auto")) == [0, 0]


@pytest.mark.parametrize("text", ["19092", "19092,x", "1,2,3", "0,19092", "19092,70000"])
def test_ports_that_are_no_pair_of_numbers_are_refused(taken: set[int], text: str) -> None:
    with pytest.raises(LocalError, match=r"neither auto nor like 19092,29092"):
        with_ports(SPECS, text)


def test_what_the_system_refuses_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", ".local/pair.lock")

    monkeypatch.setattr(pair, "down", refused)
    monkeypatch.setattr(sys, "argv", ["local", "down"])

    with pytest.raises(SystemExit) as ended:
        __main__.main()

    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert "Permission denied: '.local/pair.lock'" in said
    assert "Traceback" not in said


# All of them lead into the test's own folder: code that forgets the check must harm nobody.
@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a.b", "-a", "a\n", "{absolute}"])
def test_a_name_that_could_lead_elsewhere_is_refused_and_nothing_is_removed(
    tmp_path: Path, name: str
) -> None:
    home = tmp_path / "all" / "home"
    kept = home / "kept"
    kept.mkdir(parents=True)
    name = name.format(absolute=kept)

    with pytest.raises(LocalError, match="is no name"):
        pair.down(name, home)
    with pytest.raises(LocalError, match="is no name"):
        pair.up(name, SPECS, home=home)
    with pytest.raises(LocalError, match="is no name"):
        pair.find(name, home)

    assert list(tmp_path.rglob("*")) == [home.parent, home, kept]


def cut_short(specs: Sequence[RegionSpec], directory: Path) -> list[Region]:
    for spec in specs:
        assert not (directory / spec.name).exists(), "what was left is gone before"
        (directory / spec.name / "broker-1").mkdir(parents=True)
    raise LocalError("the brokers did not start")


def test_what_up_has_not_made_stays(
    tmp_path: Path, taken: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "kafka" / "4.3.0"
    jars.mkdir(parents=True)
    (tmp_path / "kafka" / "east" / "left").mkdir(parents=True)
    monkeypatch.setattr(pair, "start_regions", cut_short)

    with pytest.raises(LocalError, match="did not start"):
        pair.up("kafka", SPECS, home=tmp_path)
    assert list((tmp_path / "kafka").iterdir()) == [jars]
    (tmp_path / "kafka" / "west").mkdir()
    pair.down("kafka", tmp_path)

    assert list((tmp_path / "kafka").iterdir()) == [jars]


def test_of_a_start_that_was_cut_short_down_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "pair" / "east" / "broker-1").mkdir(parents=True)

    assert pair.down("pair", tmp_path) == []

    assert list(tmp_path.iterdir()) == []


def test_a_start_that_was_cut_short_between_two_regions_begins_anew(
    tmp_path: Path, taken: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Region] = []
    monkeypatch.setattr(pair, "find", lambda *_: ["east alone"])
    monkeypatch.setattr(pair, "start_regions", lambda *_: started)

    assert pair.up("kafka", SPECS, home=tmp_path) is started
