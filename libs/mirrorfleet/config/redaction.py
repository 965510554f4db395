"""Redaction by allow-list: a value is shown only when its field is named safe.

A field that somebody adds later is hidden until somebody says that it may be seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

HIDDEN: Final = "***"
"""What stands for a value that is not shown."""


def redacted_repr(name: str, fields: Iterable[tuple[str, object]], safe: frozenset[str]) -> str:
    """`Name(field=value, secret=***)`; fields that are None are left out."""
    shown = (
        f"{field}={value!r}" if field in safe else f"{field}={HIDDEN}"
        for field, value in fields
        if value is not None
    )
    return f"{name}({', '.join(shown)})"


def redacted_mapping(values: Mapping[str, object], safe: frozenset[str]) -> dict[str, object]:
    """The same mapping with every value hidden that is neither None nor named safe."""
    return {key: value if key in safe or value is None else HIDDEN for key, value in values.items()}
