from __future__ import annotations

import pytest

from services.local import pair
from services.local.broker import LocalError
from services.local.pair import with_ports
from services.local.region import RegionSpec

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


@pytest.mark.parametrize("text", ["19092", "19092,x", "1,2,3"])
def test_ports_that_are_no_pair_of_numbers_are_refused(taken: set[int], text: str) -> None:
    with pytest.raises(LocalError, match=r"neither auto nor like 19092,29092"):
        with_ports(SPECS, text)
