"""Java's properties files as java.util.Properties reads them."""

from __future__ import annotations

import pytest

from mirrorfleet.config.properties import properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb : 2\nc 3\nd=", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# a=1\n  ! b=2\n\n   c=3", {"c": "3"}),
        ("a = x, \\\n    y\\\n  ,z\nb=1", {"a": "x, y,z", "b": "1"}),
        ("a->b.enabled = true", {"a->b.enabled": "true"}),
        (r"a=C:\\dir\tx", {"a": "C:\\dir\tx"}),
        (r"k\:e\=y=v=w", {"k:e=y": "v=w"}),
        ("a=gr\\u00fcn", {"a": "grün"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("lonely", {"lonely": ""}),
        ("a=x\u2028y=z\x0bw\r\nb=1\rc=2", {"a": "x\u2028y=z\x0bw", "b": "1", "c": "2"}),
        ("", {}),
    ],
)
def test_each_form_that_java_takes_is_read(text: str, found: dict[str, str]) -> None:
    assert properties(text) == found
