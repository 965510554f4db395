"""Which of a name's addresses is taken."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable

import pytest

from mirrorfleet.kafka import dialing
from mirrorfleet.kafka.dialing import Address, dial
from tests.faultkit.waiting import until

DROPS, REFUSES, UNREACHABLE, ANSWERS = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"
FAILURES = {REFUSES: errno.ECONNREFUSED, UNREACHABLE: errno.ENETUNREACH}
Naming = Callable[..., list[str]]


@pytest.fixture
async def named(monkeypatch: pytest.MonkeyPatch) -> Naming:
    """Gives "broker" these addresses; the list that it returns fills with those that are tried."""
    loop = asyncio.get_running_loop()

    def name(*addresses: str) -> list[str]:
        tried: list[str] = []

        def look_up(host: str, port: int) -> list[Address]:
            assert host == "broker"
            return [Address(socket.AF_INET, socket.SOCK_STREAM, 0, (at, port)) for at in addresses]

        async def sock_connect(_made: socket.socket, address: tuple[str, int]) -> None:
            tried.append(address[0])
            if address[0] == DROPS:
                await asyncio.Event().wait()
            if (code := FAILURES.get(address[0])) is not None:
                raise OSError(code, os.strerror(code))

        monkeypatch.setattr(dialing, "_look_up", look_up)
        monkeypatch.setattr(loop, "sock_connect", sock_connect)
        return tried

    return name


async def test_an_address_that_drops_packets_does_not_use_up_the_time_of_the_others(
    named: Naming, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialing, "_EACH_S", 0.05)
    tried = named(DROPS, DROPS, ANSWERS)
    async with asyncio.timeout(5):
        (await dial("broker", 9092, 5)).close()
    assert tried == [DROPS, DROPS, ANSWERS]


async def test_many_addresses_share_the_time(named: Naming) -> None:
    tried = named(*[DROPS] * 9, ANSWERS)
    async with asyncio.timeout(5):
        (await dial("broker", 9092, 0.5)).close()
    assert len(tried) == 10


@pytest.mark.parametrize("addresses", [(DROPS,), (REFUSES, DROPS)])
async def test_the_last_address_has_all_the_time_that_is_left(
    named: Naming, monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    monkeypatch.setattr(dialing, "_EACH_S", 0.01)
    named(*addresses)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await dial("broker", 9092, 0.2)
    assert loop.time() - began >= 0.19


async def test_the_first_address_that_answers_is_taken_at_once(named: Naming) -> None:
    tried = named(REFUSES, ANSWERS, DROPS)
    (await dial("broker", 9092, 5)).close()
    assert tried == [REFUSES, ANSWERS]


async def test_what_all_addresses_say_alike_is_said_once(named: Naming) -> None:
    named(REFUSES, REFUSES)
    with pytest.raises(ConnectionRefusedError):
        await dial("broker", 9092, 5)


async def test_what_addresses_say_differently_is_said_of_each(
    named: Naming, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialing, "_EACH_S", 0.01)
    named(DROPS, UNREACHABLE, REFUSES)
    said = f"{DROPS}: no answer; {UNREACHABLE}: Network is unreachable; {REFUSES}: Connection ref"
    with pytest.raises(OSError, match=said):
        await dial("broker", 9092, 5)


async def test_names_that_nobody_answers_for_keep_no_other_waiting_and_are_asked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A region that is cut off, and with it its names; each lane connects again and again."""
    asked: list[str] = []
    answered = threading.Event()

    def look_up(host: str, port: int) -> list[Address]:
        asked.append(host)
        if host != "fine":
            answered.wait(10)
        return [Address(socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", port))]

    async def sock_connect(_made: socket.socket, _address: tuple[str, int]) -> None:
        pass

    monkeypatch.setattr(dialing, "_look_up", look_up)
    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", sock_connect)
    names = [f"far-{number}" for number in range(40)]
    try:
        vain = [asyncio.create_task(dial(name, 9092, 5)) for name in names * 3]
        await until(lambda: len(asked) >= len(names), deadline_s=5, what="a thread for each")
        async with asyncio.timeout(2):
            (await dial("fine", 9092, 5)).close()
        assert sorted(asked) == sorted([*names, "fine"])
        for each in vain:
            each.cancel()
        await asyncio.wait(vain)
    finally:
        answered.set()
    await until(lambda: not dialing._lookups, deadline_s=5, what="the threads' end")


@pytest.mark.parametrize("name", ["broker..corp", "b" * 64, ".corp"])
async def test_what_is_no_host_name_does_not_resolve(name: str) -> None:
    """A broker may advertise it, and may be the only one that does."""
    with pytest.raises(socket.gaierror, match="no host name"):
        await dial(name, 9092, 5)
