"""Ports that nobody has, and that nobody else is given."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from services.local import ports
from services.local.broker import LocalError


def test_a_port_that_was_given_is_never_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is bound seconds later: until then it looks free to everybody."""

    def sample(_: Sequence[int], __: int) -> list[int]:
        return [10_001, 10_002, 10_003, 10_004]

    monkeypatch.setattr(ports, "_given", set[int]())
    monkeypatch.setattr(ports, "is_free", lambda port: port != 10_002)
    monkeypatch.setattr(ports, "SystemRandom", lambda: SimpleNamespace(sample=sample))

    assert ports.free_ports(2) == [10_001, 10_003]
    assert ports.free_ports(1) == [10_004]
    with pytest.raises(LocalError, match="has no 1 free ports"):
        ports.free_ports(1)


def test_what_is_no_port_is_not_free() -> None:
    assert not ports.is_free(70_000)
