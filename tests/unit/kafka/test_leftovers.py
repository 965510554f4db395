"""Which members of a group are dead processes of this host."""

from __future__ import annotations

import pytest

from mirrorfleet.kafka.leftovers import is_dead

ME = "mirror:here:100:p1-aaaaaaaa"
ALIVE = {100, 200}


@pytest.mark.parametrize(
    ("client_id", "dead"),
    [
        ("mirror:here:300:p1-bbbbbbbb", True),
        ("mirror:here:200:p1-bbbbbbbb", False),
        ("mirror:there:300:p1-bbbbbbbb", False),
        (ME, False),
        ("mirror:here:100:p1-bbbbbbbb", True),
        ("mirror:here:300:p2-bbbbbbbb", False),
        ("mirror:here:100:p2-bbbbbbbb", False),
        ("mirror:here:300:bbbbbbbb", False),
        ("mirrorfleet-mirror", False),
        ("a:here:b:c", False),
    ],
    ids=[
        "gone",
        "alive",
        "elsewhere",
        "ourselves",
        "our pid before us",
        "neighbour",
        "neighbour of our pid",
        "no place",
        "no name",
        "no pid",
    ],
)
def test_only_a_process_of_this_host_that_is_gone_is_dead(client_id: str, *, dead: bool) -> None:
    assert is_dead(client_id, ME, is_alive=ALIVE.__contains__, host="here") is dead
