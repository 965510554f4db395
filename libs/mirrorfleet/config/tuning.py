"""Tuning of a service: its subtree of `services` in the estate, as the service's own model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import BaseModel, ValidationError

from mirrorfleet.config.keys import NO_SWITCH, unknown_key
from mirrorfleet.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)

_OURS: Final = "Value error, "
"""Pydantic's words before what a model's own rule says."""


def parse_tuning(model: type[M], service: str, subtree: Mapping[str, object]) -> M:
    """The settings of `service`.

    Raises:
        ConfigError: an unknown key or a value out of its range; every problem is named, and
            `path` is the first one's.
    """
    switches = {(key,) for key, value in subtree.items() if _is_switch(model, key, value)}
    read = {key: None if (key,) in switches else value for key, value in subtree.items()}
    try:
        return model.model_validate(read)
    except ValidationError as error:
        known = sorted(model.model_fields)
        found = [
            (
                ".".join(["services", service, *map(str, each["loc"])]),
                NO_SWITCH if each["loc"] in switches else _words(each, known),
            )
            for each in error.errors()
        ]
        text = "; ".join(f"{path}: {what}" for path, what in found)
        # not `from error`: it repeats values, and any of them may be a secret
        raise ConfigError(f"{text}.", path=found[0][0]) from None


def _is_switch(model: type[BaseModel], key: str, value: object) -> bool:
    """True or false where a number is wanted: for Python, and so for pydantic, they are some."""
    field = model.model_fields.get(key)
    return isinstance(value, bool) and field is not None and field.annotation in (int, float)


def _words(each: ErrorDetails, known: Sequence[str]) -> str:
    if each["type"] != "extra_forbidden":
        return each["msg"].removeprefix(_OURS)
    if len(each["loc"]) > 1:
        return "unknown key"
    return unknown_key(str(each["loc"][-1]), known)
