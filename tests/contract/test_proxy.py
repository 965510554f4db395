"""The proxy between real sockets: what each line does to bytes, measured."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, cast

import pytest

from services.local.ports import free_ports
from tests.faultkit.hold import hold_sync
from tests.faultkit.proxy import BLACK_HOLE, Gate, Line, Proxy, Side, _Channel, held
from tests.faultkit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
PATIENCE_S = 10.0
LATE_S = 5.0
"""How much a busy machine may add: a line is never quicker than it is asked to be."""


class Server:
    """A peer: keeps what it reads and, as `echo`, sends it back."""

    def __init__(self, *, echo: bool = True) -> None:
        self.reads: list[bytes] = []
        self.ends: list[str] = []
        self._echo = echo
        self._socket = socket.create_server((HOST, 0))
        self.port: int = self._socket.getsockname()[1]
        self._peers: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def data(self) -> bytes:
        return b"".join(self.reads)

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            self._peers.append(peer)
            self._threads.append(threading.Thread(target=self._serve, args=(peer,)))
            self._threads[-1].start()

    def _serve(self, peer: socket.socket) -> None:
        try:
            while data := peer.recv(1 << 20):
                self.reads.append(data)
                if self._echo:
                    peer.sendall(data)
        except OSError as error:
            self.ends.append(type(error).__name__)
        else:
            self.ends.append("end")

    def say(self, data: bytes) -> None:
        self._peers[-1].sendall(data)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for peer in self._peers:
            try:
                peer.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its other end has gone before
            finally:
                peer.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)


@contextmanager
def between(*, echo: bool = True) -> Iterator[tuple[Server, Gate]]:
    with ExitStack() as stack:
        server = Server(echo=echo)
        stack.callback(server.close)
        yield server, stack.enter_context(Proxy()).gate(server.port)


@contextmanager
def client(gate: Gate) -> Iterator[socket.socket]:
    with socket.create_connection((HOST, gate.port), PATIENCE_S) as made:
        yield made


def receive(peer: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        data = peer.recv(1 << 20)
        if not data:
            break
        found += data
    return bytes(found)


def answered(peer: socket.socket, data: bytes) -> float:
    """Seconds until `data` has come back, unchanged."""
    began = time.monotonic()
    sender = threading.Thread(target=peer.sendall, args=(data,))
    sender.start()
    assert receive(peer, len(data)) == data
    sender.join(PATIENCE_S)
    return time.monotonic() - began


def test_a_plain_gate_hands_everything_on_quickly() -> None:
    with between() as (_, gate), client(gate) as peer:
        data = bytes(range(256)) * (1 << 17)
        assert answered(peer, b"x") < LATE_S
        took = answered(peer, data)
        print(f"pass-through: {2 * len(data) / took / 1e6:.0f} MB/s")
        seen = gate.seen()
        assert (seen.up, seen.down, seen.waiting) == (len(data) + 1, len(data) + 1, 0)


def test_connections_are_counted_by_what_each_has_brought() -> None:
    with between() as (_, gate), client(gate) as much, client(gate) as little:
        answered(much, b"x" * 1_000)
        answered(little, b"x" * 999)
        assert (gate.brought(1_000), gate.brought(999), gate.brought(1_001)) == (1, 2, 0)


def test_a_delay_is_added_to_each_direction_by_itself() -> None:
    with between() as (_, gate), client(gate) as peer:
        gate.set(up=Line(delay_s=0.05), down=Line(delay_s=0.1))
        took = [answered(peer, b"ping") for _ in range(5)]
        assert 0.15 <= min(took) < LATE_S
        gate.heal()
        assert min(answered(peer, b"ping") for _ in range(5)) < 0.15


def test_a_window_lets_so_many_bytes_through_in_a_round_trip() -> None:
    with between(echo=False) as (server, gate), client(gate) as peer:
        answered_once = len(b"hello")
        peer.sendall(b"hello")
        wait_until(lambda: len(server.data) == answered_once, deadline_s=5, what="hello")
        gate.set(down=Line(delay_s=0.05, window=100_000), up=Line(delay_s=0.05))
        began = time.monotonic()
        sender = threading.Thread(target=server.say, args=(b"x" * 1_000_000,))
        sender.start()
        assert len(receive(peer, 1_000_000)) == 1_000_000
        sender.join(PATIENCE_S)
        # ten windows: the first arrives after 50 ms, each other one a round trip later
        assert 0.9 <= time.monotonic() - began < LATE_S


def test_a_bandwidth_is_kept_while_bytes_arrive_in_order() -> None:
    with between(echo=False) as (server, gate), client(gate) as peer:
        gate.set(up=Line(bytes_per_s=2_000_000))
        data = bytes(range(250)) * 4_000
        began = time.monotonic()
        peer.sendall(data)
        wait_until(lambda: len(server.data) == len(data), deadline_s=5, what="all of it")
        assert 0.4 <= time.monotonic() - began < LATE_S
        assert server.data == data


@pytest.mark.parametrize("turns", range(5))
async def test_who_is_being_accepted_when_a_gate_begins_to_refuse_is_reset(turns: int) -> None:
    gate = Gate(cast("Proxy", None), (HOST, 9), free_ports(1)[0])
    await gate._listen()
    with socket.create_connection((HOST, gate.port), PATIENCE_S) as peer:
        for _ in range(turns):
            await asyncio.sleep(0)  # the loop takes it up in one of them
        await gate._refuse()
        peer.settimeout(PATIENCE_S)
        with pytest.raises(ConnectionResetError):
            peer.recv(1)
    gc.collect()  # a socket that nobody closed would be told of now, and fail this test


async def test_what_is_set_while_a_connection_is_being_accepted_is_for_that_one_too() -> None:
    gate = Gate(cast("Proxy", None), (HOST, 9), 9)
    channel = _Channel(gate)  # what the loop makes; that it arrived is told in a later turn
    gate._set(BLACK_HOLE, None)
    gate.arrived(channel)

    assert channel.up.line is BLACK_HOLE
    assert not channel.connecting.is_set()
    for task in gate._tasks:
        task.cancel()


def test_slices_arrive_apart() -> None:
    with between() as (server, gate), client(gate) as peer:
        gate.set(up=Line(slice_bytes=7))
        answered(peer, b"a" * 7 * 500)
        sizes = [len(read) for read in server.reads]
        assert {size % 7 for size in sizes} == {0}
        assert len(sizes) > 1  # of 500, half a second; a reader that comes late finds many at once


def test_what_is_sent_into_a_black_hole_waits_and_arrives_after_it() -> None:
    with between() as (server, gate), client(gate) as peer:
        answered(peer, b"before")
        with held([gate], up=BLACK_HOLE):
            peer.sendall(b"during")
            wait_until(lambda: gate.seen().waiting == 6, deadline_s=5, what="bytes that wait")
            hold_sync(0.2, reason="a black hole that leaks would show it")
            assert server.data == b"before"
        assert receive(peer, 6) == b"during"


def test_one_way_requests_arrive_and_answers_do_not() -> None:
    with between() as (server, gate), client(gate) as peer:
        answered(peer, b"before")
        with held([gate], down=BLACK_HOLE):
            peer.sendall(b"during")
            wait_until(lambda: server.data == b"beforeduring", deadline_s=5, what="the request")
            peer.settimeout(0.2)
            with pytest.raises(TimeoutError):
                peer.recv(10)
        peer.settimeout(PATIENCE_S)
        assert receive(peer, 6) == b"during"


def test_a_black_hole_hides_the_end_of_a_connection_until_it_heals() -> None:
    with between() as (server, gate):
        with client(gate) as peer:
            answered(peer, b"before")
            gate.set(up=BLACK_HOLE)
        hold_sync(0.2, reason="an end that leaks would show")
        assert server.ends == []
        gate.heal()
        wait_until(lambda: server.ends == ["end"], deadline_s=5, what="the end")
        wait_until(lambda: gate.seen().open == 0, deadline_s=5, what="nothing to be left")


def test_a_connection_that_begins_in_a_black_hole_is_joined_after_it() -> None:
    with between() as (server, gate), held([gate], down=BLACK_HOLE), client(gate) as peer:
        peer.sendall(b"hello")
        wait_until(lambda: gate.seen().waiting == 5, deadline_s=5, what="bytes that wait")
        assert server.reads == []
        gate.heal()
        assert receive(peer, 5) == b"hello"


def test_a_reset_is_seen_by_both_sides() -> None:
    with between() as (server, gate), client(gate) as peer:
        answered(peer, b"before")
        assert gate.reset() == 1
        with pytest.raises(ConnectionResetError):
            peer.recv(10)
        wait_until(lambda: server.ends == ["ConnectionResetError"], deadline_s=5, what="the reset")


def test_half_open_one_side_is_reset_and_the_other_hears_nothing() -> None:
    with between() as (server, gate), client(gate) as peer:
        answered(peer, b"before")
        assert gate.half_open(Side.CLIENT) == 1
        wait_until(lambda: server.ends == ["ConnectionResetError"], deadline_s=5, what="the reset")
        peer.sendall(b"to nobody")
        peer.settimeout(0.2)
        with pytest.raises(TimeoutError):
            peer.recv(10)
        with client(gate) as other:
            answered(other, b"a new one is as ever")


def test_a_gate_that_refuses_is_refused_and_listens_again() -> None:
    with between() as (_, gate), client(gate) as peer:
        answered(peer, b"before")
        gate.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, gate.port), PATIENCE_S)
        gate.listen()
        with client(gate) as other:
            answered(other, b"again")


def test_a_target_that_is_away_resets() -> None:
    with ExitStack() as stack:
        server = Server()
        gate = stack.enter_context(Proxy()).gate(server.port)
        server.close()
        # as early as while we connect, where this process is late
        with pytest.raises(ConnectionResetError), client(gate) as peer:
            peer.recv(10)
