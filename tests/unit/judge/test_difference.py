"""The judge says in which field a copy differs."""

from __future__ import annotations

import pytest

from tests.judge.difference import WholeRecord, difference
from tests.judge.log import Stamp

SOURCE = WholeRecord(7, 1000, Stamp.CREATE, b"key", b"value", (("a", b"1"), ("b", None)))


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        (SOURCE._replace(offset=99), ""),
        (SOURCE._replace(key=None), "key b'key' (3 B) became null"),
        (SOURCE._replace(key=b""), "key b'key' (3 B) became b'' (0 B) from byte 0"),
        (
            SOURCE._replace(value=b"vaLue"),
            "value b'value' (5 B) became b'vaLue' (5 B) from byte 2",
        ),
        (SOURCE._replace(timestamp_ms=1001), "timestamp 1000 became 1001"),
        (SOURCE._replace(stamp=Stamp.APPEND), "timestamp type CREATE became APPEND"),
        (SOURCE._replace(headers=(("a", b"1"),)), "2 headers became 1"),
        (
            SOURCE._replace(headers=(("b", None), ("a", b"1"))),
            "order of headers ['a', 'b'] became ['b', 'a']",
        ),
        (
            SOURCE._replace(headers=(("a", b"1"), ("b", b""))),
            "header 1 'b': null became 'b': b'' (0 B)",
        ),
        (
            SOURCE._replace(key=b"kez", timestamp_ms=0),
            "key b'key' (3 B) became b'kez' (3 B) from byte 2; timestamp 1000 became 0",
        ),
    ],
)
def test_the_field_that_changed_is_named_with_both_values(copy: WholeRecord, said: str) -> None:
    assert difference(SOURCE, copy) == said


def test_a_long_value_is_cut_and_its_length_told() -> None:
    copy = SOURCE._replace(value=b"v" * 1_000_000)
    assert difference(SOURCE, copy) == (
        "value b'value' (5 B) became b'vvvvvvvvvvvvvvvvvvvvvvvv'… (1000000 B) from byte 1"
    )
