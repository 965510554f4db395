"""Every error of ours, as one tree with `retriable` as data.

    MirrorfleetError
    ├── ConfigError            what the operator wrote; carries a path and a line
    ├── RefusedError           a rule of ours says no (same cluster.id, two claims, cycle, ...)
    ├── CorruptBatchError      bytes that are not a record batch, or fail their CRC
    ├── UnknownVersionError    a control record newer than this build
    ├── ConnectionLostError    the connection ended with requests unanswered (retriable)
    │   └── NoMemoryError      this process had no memory for it
    ├── StarvedError           and has had none for long: it ends, for others to go on
    ├── DeadlineError          no answer in time (retriable)
    ├── AuthenticationError    TLS or SASL said no
    ├── UnsupportedError       the broker lacks an API or a version that we need
    ├── BrokerError            a Kafka error code; `retriable` follows the code
    ├── FencedError            another owner has the slot; drop it, never init a way back
    ├── NotOursError           nobody says that this process is the active one; not to be written
    └── OutdatedError          what was decided on has changed meanwhile; not to be written

`is_retriable` is the one place that decides on retry.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mirrorfleet.core.error_codes import ErrorCode


class MirrorfleetError(Exception):
    """Base of all. `retriable`: the same call may succeed later without a change by anyone."""

    retriable: bool = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class ConfigError(MirrorfleetError):
    """Raised when the estate or the environment is wrong; `path` is like `links[0].rules[1]`."""

    def __init__(self, message: str, *, path: str = "", line: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.line = line


class RefusedError(MirrorfleetError):
    """Raised when a rule of ours forbids what was asked, before anything was written."""


class CorruptBatchError(MirrorfleetError):
    """Raised when bytes are no valid record batch: length, magic, CRC, codec or record framing."""

    def __init__(self, message: str, *, offset: int = -1) -> None:
        super().__init__(message)
        self.offset = offset


class UnknownVersionError(MirrorfleetError):
    """Raised when a record that must not be skipped has a version that this build does not know."""


class ConnectionLostError(MirrorfleetError):
    """Raised when a connection ends (or cannot be made) while a request waits for its answer."""

    retriable = True


class NoMemoryError(ConnectionLostError):
    """Raised when a connection ends, or is not made, because this process has no memory for it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"no memory for {what}.", hint="Give the process more memory.")


class StarvedError(MirrorfleetError):
    """Raised when memory has been missing for long: the process ends, and others have its slots."""


class DeadlineError(MirrorfleetError):
    """Raised when an answer did not come in time; the outcome of the request is unknown."""

    retriable = True


class AuthenticationError(MirrorfleetError):
    """Raised when TLS or SASL refuses us, or we refuse the peer; names principal and mechanism."""


class UnsupportedError(MirrorfleetError):
    """Raised when a broker offers no version of an API that we can speak."""


class BrokerError(MirrorfleetError):
    """Raised for a Kafka error code in an answer."""

    def __init__(self, code: ErrorCode, where: str, *, detail: str = "", hint: str = "") -> None:
        text = f"{where}: {code.name} ({int(code)})" + (f": {detail}" if detail else "")
        super().__init__(text, hint=hint)
        self.code = code
        self.where = where
        self.retriable = code.retriable


class FencedError(MirrorfleetError):
    """Raised when the coordinator or a broker says that another owner took our transactional id."""


class NotOursError(MirrorfleetError):
    """Raised before a write of the active process, which nobody says that we are at this moment.

    No word on what was to be written: a group without a coordinator says nothing for a while.
    """


class OutdatedError(MirrorfleetError):
    """Raised before a write that follows from what somebody else has changed since it was read.

    Not `retriable`: the same write stays wrong. Who reads and decides again may succeed.
    """


ENDING: Final = (UnknownVersionError, StarvedError)
"""What no other attempt of this process mends, nor of one beside it: it ends."""


def may_not(who: str, operation: str, resource: str, cluster: str) -> str:
    """The text for a missing right, in the words that `mirrorfleet acls` grants it with."""
    return f"{who} may not {operation} {resource} on {cluster}"


HOW_TO_GRANT: Final = "`mirrorfleet acls` prints what is needed."


def denied(code: ErrorCode, who: str, operation: str, resource: str, cluster: str) -> BrokerError:
    """A missing right as an error, with where the right can be had."""
    return BrokerError(code, may_not(who, operation, resource, cluster), hint=HOW_TO_GRANT)


def is_retriable(error: BaseException) -> bool:
    """Whether the same call may succeed later; anything that is not ours is not."""
    return isinstance(error, MirrorfleetError) and error.retriable


def deciding(group: BaseExceptionGroup[MirrorfleetError]) -> MirrorfleetError:
    """Of several errors the one that decides: fencing above all, then the first of those that a
    retry cannot help, then the first.
    """
    return min(_leaves(group), key=_weight)


@contextmanager
def ungrouped(*wanted: type[Exception]) -> Iterator[None]:
    """Around a task group: raise the one of its errors that decides, without the group.

    `wanted` are ends that were meant. `except*` would do, but Pythons before 3.11.4 put what is
    raised there into a group again, which nobody expects (gh-103590).

    Raises: MirrorfleetError; the group itself when there is another error than ours in it.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        _, rest = group.split(wanted)
        if rest is None:
            return
        ours, others = rest.split(MirrorfleetError)
        if ours is None or others is not None:
            raise
        raise deciding(ours) from group


def _weight(error: MirrorfleetError) -> int:
    return 0 if isinstance(error, FencedError) else 1 + error.retriable


def leaf_error(error: BaseException) -> BaseException:
    """The error of ours that decides inside task groups; anything else is a bug and goes on.

    Raises: the group itself when there is none of ours in it.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    ours, _ = error.split(MirrorfleetError)
    if ours is None:
        raise error
    return deciding(ours)


def _leaves(group: BaseExceptionGroup[MirrorfleetError]) -> Iterator[MirrorfleetError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
