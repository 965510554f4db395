"""Configs of a topic that its target refuses as a whole: which part to ask for, and when. No I/O.

Of a topic Kafka takes all entries of a request or none, so that one that a broker's version or
policy refuses (`segment.bytes` below 1 MiB since 4.0, KIP-1030) would hold up all others for good:
a copy would go on deleting what its source keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.error_codes import DENIED
from mirrorfleet.planning.configs import NEEDED
from mirrorfleet.planning.observed import CLEANUP, RETENTION, TIMESTAMP_TYPE

if TYPE_CHECKING:
    from mirrorfleet.core.errors import BrokerError
    from mirrorfleet.planning.configs import ConfigEdit

_DELETING: Final = frozenset({RETENTION, "retention.bytes"})
_LAGS: Final = frozenset({"min.compaction.lag.ms", "max.compaction.lag.ms"})
"""Kafka refuses a `min` above the `max` (LogConfig.validateValues): they change together."""
_COMPACTING: Final = _LAGS | {"delete.retention.ms"}
_KEPT: Final = _DELETING | _COMPACTING | {CLEANUP}
"""What decides what is kept, and for how long."""
_LEAST: Final = NEEDED | _KEPT | {TIMESTAMP_TYPE}


def is_final(error: BrokerError) -> bool:
    """Whether it is what was asked for that is refused, and neither who asks nor when."""
    return not error.retriable and error.code not in DENIED


def least_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """Without which no copy is made: it would not be exact, or delete what its source keeps."""
    return {name: value for name, value in configs.items() if name in _LEAST}


class Pieces:
    """The edits of one topic, refused together: parts are asked for, in order, each once.

    What the copy needs goes first, then what decides what is kept, then all else, one by one. There
    are no more parts than edits, and those have only names that the target knows.
    """

    def __init__(self, edits: Iterable[ConfigEdit], error: BrokerError) -> None:
        parts = _parts(edits)
        self._left = parts if len(parts) > 1 else []
        self._refused = [] if self._left else [(part, error) for part in parts]

    @property
    def part(self) -> tuple[ConfigEdit, ...]:
        """What to ask for now; empty when nothing is left to ask for."""
        return self._left[0] if self._left else ()

    @property
    def refusal(self) -> str:
        """What stays refused, and why; "" when all is made."""
        return "; ".join(f"{', '.join(map(str, part))}: {error}" for part, error in self._refused)

    def answer(self, error: BrokerError | None) -> None:
        """What the target says of `part`; None: it is made."""
        part, *self._left = self._left
        if error is None:
            return
        self._refused.append((part, error))
        if not is_final(error):
            self._left = []  # all together are asked for again
        elif any(each.name == CLEANUP for each in part):
            # the old policy stays: under it a limit may count that means nothing at the source
            self._left = [some for some in self._left if some[0].name not in _KEPT]


def _parts(edits: Iterable[ConfigEdit]) -> list[tuple[ConfigEdit, ...]]:
    placed = list(edits)
    policies = [each.new for each in placed if each.name == CLEANUP]
    bound = _bound(policies[0]) if policies else frozenset[str]()

    def place(edit: ConfigEdit) -> tuple[int, str]:
        """The order, and what goes together."""
        if edit.name in NEEDED:
            return 0, edit.name
        if edit.name in bound:
            return 1, ""
        if edit.name in _LAGS:
            return 2, ""
        return (2 if edit.name in _KEPT else 3), edit.name

    return [tuple(some) for _, some in groupby(sorted(placed, key=place), place)]


def _bound(policy: str | None) -> frozenset[str]:
    """What a new `cleanup.policy` must not be without: a topic that begins to delete, and whose
    longer `retention.ms` is refused, would lose what its source keeps. None: the target's default.
    """
    deletes = policy is None or "delete" in policy
    compacts = policy is None or "compact" in policy
    return frozenset({CLEANUP, *(_DELETING if deletes else ()), *(_COMPACTING if compacts else ())})
