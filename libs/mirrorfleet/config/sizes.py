"""Bytes a second, as the estate and a command line give them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import ByteSize, Field, StrictInt, TypeAdapter, ValidationError

from mirrorfleet.core.errors import ConfigError

LEAST_THROTTLE: Final = 64 * 1024
"""With less, a batch of common size would look like a standstill."""
_LARGEST: Final = 2**63 - 1
_EXAMPLES: Final = "Say 5MB, 500KiB, 40Mbit or a number of bytes."

Throttle = Annotated[StrictInt, Field(ge=LEAST_THROTTLE)]


def bytes_a_second(text: str) -> int:
    """What a person calls `5MB`, `5 MiB/s`, `40Mbit` or `5000000`.

    Raises: ConfigError for what is none of these, or less than a rule may say.
    """
    try:
        found = int(TypeAdapter(ByteSize).validate_python(text.removesuffix("/s")))
    except ValidationError:
        raise ConfigError(f"{text!r} is no number of bytes a second.", hint=_EXAMPLES) from None
    if not LEAST_THROTTLE <= found <= _LARGEST:
        what = f"{text!r} is not from {LEAST_THROTTLE} to {_LARGEST} bytes a second."
        raise ConfigError(what, hint="To have it stand: mirrorfleet pause TOPIC --target T")
    return found
