"""A token that serves many logins: for how long it is given out, as numbers without a clock.

A broker lets no session outlive its token. So one that is nearly over is good for nothing but to
bridge a time without a newer one, and of no use at all to a session that lasts as long as it.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

_FRESH: Final = 0.8
"""Part of its life in which a token is given out without asking for a newer one."""
_LEAST_S: Final = 5.0
"""With less left it is not given out: a session of a second cannot even be renewed."""
_GAIN: Final = 1.5
"""It must last so many times as long as the session that it is to renew: two clocks differ."""


class KeptToken(NamedTuple):
    """A token, when it was asked for and when it ends (loop time)."""

    value: str
    since: float
    ends: float

    def is_fresh(self, now: float, beyond_s: float) -> bool:
        """Whether no newer one is needed; `beyond_s` is what is left of the session to renew."""
        return now - self.since < (self.ends - self.since) * _FRESH and self.lasts(now, beyond_s)

    def lasts(self, now: float, beyond_s: float) -> bool:
        """Whether it gives a session that is worth it."""
        return self.ends - now > max(_LEAST_S, beyond_s * _GAIN)


def lifetime_s(answer: Mapping[str, object], token: str, now_s: float) -> float:
    """How long a token lasts from now on: the answer's `expires_in` (RFC 6749 section 5.1), else
    its own `exp` (RFC 7519), which is wall clock; 0 when neither says.
    """
    for said, less in ((answer.get("expires_in"), 0.0), (_claims(token).get("exp"), now_s)):
        if isinstance(said, int | float | str):
            try:
                seconds = float(said) - less
            except (ValueError, OverflowError):
                continue
            if math.isfinite(seconds):
                return max(seconds, 0.0)
    return 0.0


def _claims(token: str) -> Mapping[str, object]:
    """What a JWT says; nothing of another token."""
    _, _, rest = token.partition(".")
    try:
        claims: object = json.loads(base64.urlsafe_b64decode(rest.partition(".")[0] + "=="))
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) else {}
