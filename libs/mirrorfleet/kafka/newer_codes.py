"""Answers in which a newer broker names an error that the schemas do not know.

The schemas' reader takes the codes of its own table only: one other makes a whole answer
unreadable. Read by these types, the same bytes have their error codes as plain numbers, which
`codec.code_of` takes as well.
"""

from __future__ import annotations

from dataclasses import field, fields, is_dataclass, make_dataclass
from functools import cache, reduce
from operator import is_, or_
from types import GenericAlias
from typing import Final, TypeVar, cast, get_args, get_origin

from kio.static.protocol import Entity

R = TypeVar("R", bound=Entity)

_TYPE: Final = "kafka_type"


def with_numbers(entity: type[R]) -> type[R]:
    """A subclass of `entity` of the same layout, its error codes and those inside as numbers."""
    return cast("type[R]", _numbered(entity))


@cache
def _numbered(entity: type[Entity]) -> type[Entity]:
    changed: list[tuple[str, object, object]] = []
    for each in fields(entity):
        kind, metadata = _kind(each.type), dict(each.metadata)
        if metadata.get(_TYPE) == "error_code":
            kind, metadata[_TYPE] = int, "int16"
        if kind is not each.type:
            changed.append((each.name, kind, field(default=each.default, metadata=metadata)))
    if not changed:
        return entity
    made = make_dataclass(
        entity.__name__, changed, bases=(entity,), frozen=True, slots=True, kw_only=True
    )
    return cast("type[Entity]", made)


def _kind(kind: object) -> object:
    """The type of a field, with entities inside of it replaced; itself when there is none."""
    if isinstance(kind, type) and is_dataclass(kind):
        return _numbered(cast("type[Entity]", kind))
    before = get_args(kind)
    inside = tuple(map(_kind, before))
    if all(map(is_, before, inside)):
        return kind
    if get_origin(kind) is tuple:
        return GenericAlias(tuple, inside)
    union: object = reduce(or_, inside)
    return union
