"""An incremental fetch session with one broker (KIP-227), sans-IO.

    wanted   what the caller asks for now
    sent     what the broker has in its session, as we told it last
    touched  where the two may differ: what was said since, and what was not answered

A request carries the difference of wanted and sent, and is made from what was touched alone: an
answer brings news of a few of a session's thousands of partitions. Epoch 0 asks for a new session
with everything in it; an answer without an error moves the epoch on. The broker's cache may drop a
session at any time (FETCH_SESSION_ID_NOT_FOUND): then the next request is a full one again. Source:
FetchMetadata and FetchSessionHandler of the Java client.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.ids import NO_TOPIC_ID, TopicId
from mirrorfleet.wire.k01_fetch import FetchPoint
from mirrorfleet.wire.topic_refs import FIRST_WITH_TOPIC_IDS, TopicRef, topic_key

_NO_SESSION: Final = -1
"""Asks for one answer; the broker remembers nothing (FetchMetadata.FINAL_EPOCH)."""
_NEW_SESSION: Final = 0
_MAX_EPOCH: Final = 0x7FFFFFFF
_Key = tuple[TopicId | str, int]
_Sent = tuple[int, int, int, int]

_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FetchPlan(NamedTuple):
    """What the next request says about session and partitions."""

    version: int
    session_id: int
    session_epoch: int
    points: list[FetchPoint]
    forgotten: list[tuple[TopicRef, int]]


class FetchSession:
    """The state of one session; `plan`, then `accept` the answer, one request at a time."""

    def __init__(self, highest_version: int, *, kept: bool = True) -> None:
        """`highest_version` is the newest Fetch that the broker and we speak, 12 at least.

        Not `kept`: every request is a full one, and the broker keeps no session for it.
        """
        self._highest = highest_version
        self._version = highest_version
        self._first_epoch = _NEW_SESSION if kept else _NO_SESSION
        self._id = 0
        self._epoch = self._first_epoch
        self._wanted: dict[_Key, FetchPoint] = {}
        self._sent: dict[_Key, tuple[TopicRef, _Sent]] = {}
        self._pending: dict[_Key, tuple[TopicRef, _Sent] | None] = {}
        self._touched: dict[_Key, None] = {}
        self._planned: dict[_Key, None] = {}
        """What was touched, and is in the request that has no answer yet."""
        self._by_name = 0
        """How many of the wanted have no topic id."""
        self.names: dict[bytes, TopicRef] = {}
        """Topics by what stands for them in answers."""

    def __len__(self) -> int:
        return len(self._wanted)

    def want(self, point: FetchPoint) -> None:
        """Fetch this partition from this point from the next request on.

        It goes behind the others: a broker fills answers in the order of a full request, and where
        it keeps no session, nobody but us can see to it that each has its turn.
        """
        key = _key(point.topic, point.topic_id, point.partition)
        if self._wanted.pop(key, None) is None:
            self._by_name += isinstance(key[0], str)
        self._wanted[key] = point
        self._touched[key] = None

    def forget(self, topic_id: TopicId, partition: int, topic: str = "") -> None:
        """Fetch this partition no more. `topic` is needed only where there is no topic id."""
        key = _key(topic, topic_id, partition)
        if self._wanted.pop(key, None) is not None:
            self._by_name -= isinstance(key[0], str)
            self._touched[key] = None

    def restart(self) -> None:
        """Begin a new session; one that the broker still has under our id is closed by it."""
        self._epoch = self._first_epoch
        self._sent.clear()

    def plan(self) -> FetchPlan:
        """The next request's part."""
        self._planned |= self._touched
        self._touched = {}
        version = self._needed_version()
        if version != self._version or (version < FIRST_WITH_TOPIC_IDS and self._recreated()):
            self.restart()
        self._version = version
        full = self._epoch == self._first_epoch
        self._pending = {}
        points: list[FetchPoint] = []
        forgotten: list[tuple[TopicRef, int]] = []
        for key in self._wanted if full else self._planned:
            point, known = self._wanted.get(key), self._sent.get(key)
            if point is not None:
                self._plan_point(key, point, None if full else known, points)
            elif known is not None:
                forgotten.append((known[0], key[1]))
                self._pending[key] = None
        return FetchPlan(version, self._id, self._epoch, points, forgotten)

    def _plan_point(
        self,
        key: _Key,
        point: FetchPoint,
        known: tuple[TopicRef, _Sent] | None,
        points: list[FetchPoint],
    ) -> None:
        state = (point.offset, point.leader_epoch, point.last_fetched_epoch, point.max_bytes)
        if known is None:
            ref = TopicRef(point.topic, point.topic_id)
            self.names[topic_key(self._version, ref)] = ref
        elif known[1] == state:
            return
        else:
            ref = known[0]
        points.append(point)
        self._pending[key] = (ref, state)

    def accept(self, error: ErrorCode, session_id: int) -> bool:
        """Take the answer's verdict; False when it was about the session: plan again.

        Any other error is the caller's, after `restart`.
        """
        if error is ErrorCode.NONE:
            for key, sent in self._pending.items():
                if sent is None:
                    self._sent.pop(key, None)
                else:
                    self._sent[key] = sent
            self._planned = {}
            self._advance(session_id)
            return True
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = 0
        self.restart()
        return error not in _SESSION_ERRORS

    def _advance(self, session_id: int) -> None:
        """Epochs 1, 2, ... of a session; 0 again when the broker gave us none."""
        self._id = session_id
        if session_id == 0:
            self.restart()
        else:
            self._epoch = 1 if self._epoch >= _MAX_EPOCH else self._epoch + 1

    def _needed_version(self) -> int:
        """A session names all its topics in one way: by id only when every topic has one."""
        if self._highest < FIRST_WITH_TOPIC_IDS:
            return self._highest
        return FIRST_WITH_TOPIC_IDS - 1 if self._by_name else self._highest

    def _recreated(self) -> bool:
        """Whether a name changed its topic id: by name, the broker would forget the new one."""
        gone = {
            (self._sent[key][0].topic, key[1])
            for key in self._planned
            if key in self._sent and key not in self._wanted
        }
        return bool(gone) and any((p.topic, p.partition) in gone for p in self._wanted.values())


def _key(topic: str, topic_id: TopicId, partition: int) -> _Key:
    return (topic if topic_id == NO_TOPIC_ID else topic_id, partition)
