"""Tuning of a service: its subtree of `services` in the estate, as the service's own model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import BaseModel, ValidationError

from mirrorfleet.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

M = TypeVar("M", bound=BaseModel)

_OURS: Final = "Value error, "
"""Pydantic's words before what a model's own rule says."""


def parse_tuning(model: type[M], service: str, subtree: Mapping[str, object]) -> M:
    """The settings of `service`.

    Raises:
        ConfigError: an unknown key or a value out of its range; every problem is named.
    """
    try:
        return model.model_validate(dict(subtree))
    except ValidationError as error:
        path = f"services.{service}"
        problems = [
            f"{'.'.join([path, *map(str, each['loc'])])}: {each['msg'].removeprefix(_OURS)}"
            for each in error.errors()
        ]
        known = ", ".join(sorted(model.model_fields))
        raise ConfigError("; ".join(problems), path=path, hint=f"Known keys: {known}.") from error
