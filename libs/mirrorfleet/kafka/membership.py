"""One member of a consumer group whose members share out slots: the group only says who should.

    join with a claim -> one member decides for all -> a share -> heartbeats -> ... -> leave

aiokafka's coordinator without its consumer: nothing is fetched and the topic need not exist. Its
protocol is eager, so a share that comes with the next generation replaces the one before; what
was held meanwhile goes on. That is safe, because writing is fenced and not a matter of the group.

`confirm` asks the coordinator on a connection of its own: aiokafka's waits behind a JoinGroup that
the broker holds back for seconds, and for a coordinator that fell silent as long as for that. It is
asked now and then for that reason, too: aiokafka is told of another coordinator and of a rebalance,
which would put it out, and who was put out begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, cast

from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.errors import KafkaError
from kio.schema.heartbeat.v3.request import HeartbeatRequest
from kio.schema.heartbeat.v3.response import HeartbeatResponse
from kio.schema.leave_group.v3.response import LeaveGroupResponse
from kio.schema.types import GroupId
from kio.static.primitive import i32

from mirrorfleet.copying.sharing import Share, has_drifted
from mirrorfleet.core.error_codes import ErrorCode
from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConfigError,
    DeadlineError,
    MirrorfleetError,
    denied,
)
from mirrorfleet.core.ports import Clock
from mirrorfleet.kafka.aiokafka_options import (
    Reach,
    client_options,
    drop_member,
    keep_up,
    tokens_of,
    translate,
)
from mirrorfleet.kafka.assigning import Assignor
from mirrorfleet.kafka.call import call
from mirrorfleet.kafka.cluster import Cluster
from mirrorfleet.kafka.codec import code_of
from mirrorfleet.kafka.coordinator import (
    COORDINATOR_MOVED,
    CoordinatorConnection,
    CoordinatorKind,
    find_coordinator,
)
from mirrorfleet.kafka.leftovers import goodbye, remove_leftovers
from mirrorfleet.kafka.tokens import TokenProvider
from mirrorfleet.records.members import NO_SLOTS, Carried, Claim, Known, Slots

SESSION_S: Final = 6.0
"""A silent member is out after this: the least that brokers allow by default
(group.min.session.timeout.ms)."""
HEARTBEAT_S: Final = 0.5
"""Others hear of a member that comes or goes with their next one: a hand-over waits for that."""
_ANSWER_S: Final = SESSION_S + 4 * HEARTBEAT_S
"""For each answer to aiokafka: to JoinGroup it is held back for the time of a rebalance, a session
at most. One that is silent is waited for no longer: the others rebalance without us meanwhile."""
_NEVER_MS: Final = float("inf")
"""aiokafka leaves a group that reads nothing for so long, for ever; ours reads nothing ever."""
_OUTSIDE_S: Final = 5 * SESSION_S
"""aiokafka that is no member for so long, and says nothing, is begun anew."""
_SECRETS: Final = (AuthenticationError, ConfigError)
_DRIFT_S: Final = 60.0
"""Loads are claimed anew at most so often: each time the group shares out all slots."""
_LOOK_S: Final = 0.2
"""Between two looks at what aiokafka made of the group."""
_AGAIN_S: Final = 1.0
"""Between two attempts to join."""
_LEAVE_S: Final = 1.5
"""For a goodbye; without one the session ends by itself."""
_CLOSE_S: Final = _LEAVE_S / 2
"""Of it for aiokafka's, which comes after the answer to a JoinGroup that may be held back."""
_CONFIRM_S: Final = 2.0
"""For an answer whether we are still a member."""
_REACH_S: Final = 3.0
"""For the coordinator's name and a connection to it."""
_UNHEARD_S: Final = SESSION_S / 2
"""It is asked when nobody has asked for so long."""
_PUT_OUT_S: Final = 4 * HEARTBEAT_S
"""For aiokafka to hear by itself that we are out, and to join again at once."""
_MS: Final = 1000


class _Coordinator(Protocol):
    """What we use of aiokafka's GroupCoordinator."""

    generation: int
    member_id: str
    coordinator_id: int | None

    def check_errors(self) -> None: ...
    def coordinator_dead(self) -> None: ...
    def request_rejoin(self) -> None: ...
    async def close(self) -> None: ...


class _PutOut(NamedTuple):
    """Who the coordinator does not know any more, and since when we know (monotonic)."""

    member_id: str
    since: float


class Membership:
    """A member; `run` keeps it one, and leaves the group when it is cancelled.

    `share` is what the newest generation gave (None before the first one). It stays when the
    coordinator cannot be reached: whoever must not act then looks at `confirmed_at`.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        group: str,
        topic: str,
        owner: str,
        clock: Clock,
        known: Callable[[], Known],
        carried: Callable[[], Carried],
    ) -> None:
        """`owner` is the name of this process, of the form that `remove_leftovers` knows.

        `known` gives the slots as we know them. It is asked again and again: when its answer
        changes, the slots are shared out anew. So they are, now and then, when the loads of what we
        hold (`carried`) are quite others, and when one of these slots may be moved again.
        """
        self.share: Share | None = None
        self.generation = -1
        self.confirmed_at = float("-inf")
        """Monotonic: when the last request went out that was answered as to a member."""
        self.trouble = ""
        self._cluster = cluster
        self.group = group
        self._topic = topic
        self._owner = owner
        self._clock = clock
        self._known = known
        self._carried = carried
        self._leaving = self.knows_we_leave = False
        self._brought = Carried()
        self._claimed_at = float("-inf")
        self._claimed = (known(), False)
        self._changed = asyncio.Event()
        self._given_at = float("-inf")
        self._coordinator: _Coordinator | None = None
        self._put_out = _PutOut("", float("inf"))
        self._asking = asyncio.Lock()
        self._unreached = 0
        self._tokens: TokenProvider | None = None
        self._asked = CoordinatorConnection(cluster, group, CoordinatorKind.GROUP)

    @property
    def silent_s(self) -> float:
        """For how long nobody has said that we are a member; it is asked every few seconds."""
        return self._clock.monotonic() - max(self.confirmed_at, self._given_at)

    async def run(self) -> None:
        """Stay a member until cancelled; then leave, so that the others need not wait.

        Who was a member waits for secrets and certificates that are half renewed, and copies on.
        Raises: BrokerError (may not join), AuthenticationError, and what else a retry cannot help.
        """
        try:
            while True:
                try:
                    await self._be_member()
                except MirrorfleetError as error:
                    if not (error.retriable or (self.share and isinstance(error, _SECRETS))):
                        raise
                    self.trouble = str(error)
                    self._changed.set()
                await asyncio.sleep(_AGAIN_S)
        finally:
            self._asked.drop()

    async def confirm(self) -> bool:
        """Ask the coordinator now whether we are a member of the generation that gave our share.

        False as well when it does not answer. A rebalance under way is no loss: nobody gets what
        we hold before we joined it or were found silent.
        """
        coordinator = self._coordinator
        if coordinator is None or self.share is None or coordinator.generation != self.generation:
            return False
        member_id, sent_at = coordinator.member_id, self._clock.monotonic()
        code = await self._heartbeat(coordinator)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.confirmed_at = max(self.confirmed_at, sent_at)
            return True
        if code is ErrorCode.UNKNOWN_MEMBER_ID and coordinator.member_id == member_id:
            self.confirmed_at = float("-inf")  # what we hold may be another's already
            if self._put_out.member_id != member_id:
                self._put_out = _PutOut(member_id, self._clock.monotonic())
        return False

    async def _heartbeat(self, coordinator: _Coordinator) -> ErrorCode | None:
        """What the group's coordinator says to one; None when it does not answer."""
        request = HeartbeatRequest(
            group_id=GroupId(self.group),
            generation_id=i32(coordinator.generation),
            member_id=coordinator.member_id,
        )
        unreached = self._unreached
        try:
            async with self._asking:  # many slots ask at once: one connection serves all,
                if self._unreached != unreached:  # or fails all
                    return None
                connection, node = await self._asked.get(_REACH_S), self._asked.node
            answer = await call(connection, request, HeartbeatResponse, _CONFIRM_S)
        except MirrorfleetError:
            self._unreached += 1
            self._asked.drop()
            return None
        code = code_of(answer.error_code)
        if code in COORDINATOR_MOVED:
            self._asked.drop()
        elif code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            # aiokafka hears it late, or never, from one that is silent
            if coordinator.coordinator_id not in (None, node):
                coordinator.coordinator_dead()
            is_over = coordinator.generation != request.generation_id
            if code is ErrorCode.REBALANCE_IN_PROGRESS and not is_over:
                coordinator.request_rejoin()
        return code

    def leave(self) -> None:
        """Have our slots given to others, if there are any; we stay a member until `run` ends.

        `knows_we_leave` once a share was made with that in mind: another may be under way already.
        """
        self._leaving = True
        if self._coordinator is not None:
            self._coordinator.request_rejoin()

    def wake(self) -> None:
        """End the wait in `changed`: something else happened that whoever waits must see."""
        self._changed.set()

    async def changed(self, at_most_s: float) -> None:
        """Wait for a new share, trouble, `wake`, or the time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self._changed.wait()
        self._changed.clear()

    async def _be_member(self) -> None:
        settings = self._cluster.settings
        self._tokens = self._tokens or tokens_of(settings)  # a token outlives a member
        options = client_options(settings, self._tokens)
        mine = {"client_id": self._owner, "request_timeout_ms": int(_ANSWER_S * _MS)}
        client = AIOKafkaClient(**{**options, **mine})
        keep_up(client, settings, Reach(self._find, _REACH_S))
        client.set_topics([self._topic])
        coordinator: _Coordinator | None = None
        try:
            await client.bootstrap()
            with suppress(MirrorfleetError):  # then they are waited for
                await remove_leftovers(self._cluster, self.group, self._owner)
            subscription = SubscriptionState()
            # a fetcher would do this; a refused group fails these waiters
            subscription.register_fetch_waiters(set())
            subscription.subscribe({self._topic})
            coordinator = self._coordinator = self._join(client, subscription)
            await self._watch(coordinator)
        except KafkaError as error:
            where = f"{settings.alias}: {self.group}"
            raise self._explained(translate(error, where, options)) from error
        finally:
            self._coordinator = None
            if coordinator is not None:
                await self._close(coordinator)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await client.close()

    async def _close(self, coordinator: _Coordinator) -> None:
        """Leave the group, by ourselves if aiokafka cannot: the others' rebalance would wait for a
        member that is no more, and it may have been made the one that decides for all.
        """
        with suppress(MirrorfleetError, TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                try:
                    async with asyncio.timeout(_CLOSE_S):
                        await coordinator.close()
                except (KafkaError, TimeoutError):
                    drop_member(coordinator)
                    if coordinator.member_id:
                        request = goodbye(self.group, [coordinator.member_id])
                        connection = await self._asked.get(_LEAVE_S)
                        await call(connection, request, LeaveGroupResponse, _LEAVE_S)
        drop_member(coordinator)

    async def _watch(self, coordinator: _Coordinator) -> None:
        """Raises: KafkaError of what aiokafka met; DeadlineError when it stays no member."""
        member_at = asked_at = self._clock.monotonic()
        where = f"{self._cluster.settings.alias}: {self.group}"
        while True:
            await asyncio.sleep(_LOOK_S)
            coordinator.check_errors()
            now = self._clock.monotonic()
            member_at = now if coordinator.generation >= 0 else member_at
            if now - member_at > _OUTSIDE_S:
                raise DeadlineError(f"{where}: no member for {_OUTSIDE_S:.0f} s")
            if self._is_out(coordinator, now):
                raise DeadlineError(f"{where}: its coordinator knows no member here any more")
            # looked at here: aiokafka forgets a wish to join again while it joins
            if self._claimed != self._wishes() or self._has_changed():
                coordinator.request_rejoin()
            if now - max(asked_at, self.confirmed_at) > _UNHEARD_S:
                asked_at = now
                await self.confirm()

    async def _find(self) -> int:
        return await find_coordinator(self._cluster, self.group, CoordinatorKind.GROUP, _REACH_S)

    def _is_out(self, coordinator: _Coordinator, now: float) -> bool:
        """Whether aiokafka has not noticed for long that we are no member."""
        member_id, since = self._put_out
        return coordinator.member_id == member_id and now - since > _PUT_OUT_S

    def _join(self, client: object, subscription: object) -> _Coordinator:
        made = GroupCoordinator(
            client,
            subscription,
            group_id=self.group,
            session_timeout_ms=int(SESSION_S * _MS),
            rebalance_timeout_ms=int(SESSION_S * _MS),
            heartbeat_interval_ms=int(HEARTBEAT_S * _MS),
            enable_auto_commit=False,
            max_poll_interval_ms=_NEVER_MS,
            assignors=(Assignor(self._topic, self._claim, self._take),),
        )
        return cast("_Coordinator", made)

    def _claim(self) -> Claim:
        self._claimed = (known, leaving) = self._wishes()
        self._brought, self._claimed_at = self._carried(), self._clock.monotonic()
        return Claim(
            generation=self.generation,
            held=self._held,
            known=known.slots,
            busy=known.busy,
            away=known.away,
            leaving=leaving,
            loads=self._brought.loads,
            diverted=self._brought.diverted,
        )

    def _has_changed(self) -> bool:
        """Whether what we hold is to be shared out in another way than we claimed."""
        now = self._carried()
        if (self._brought.diverted - now.diverted) & self._held:
            return True
        is_due = self._clock.monotonic() - self._claimed_at > _DRIFT_S
        return is_due and has_drifted(self._brought.loads, now.loads)

    @property
    def _held(self) -> Slots:
        return NO_SLOTS if self.share is None else self.share.slots

    def _wishes(self) -> tuple[Known, bool]:
        return self._known(), self._leaving

    def _take(self, given: Share) -> None:
        """A generation is complete."""
        if self._coordinator is not None:
            self.generation = self._coordinator.generation
        self.share, self.knows_we_leave = given, self._claimed[1]
        self._given_at = self._clock.monotonic()
        self.trouble = ""
        self._changed.set()

    def _explained(self, error: MirrorfleetError) -> MirrorfleetError:
        """A refused group, with who wanted to join it."""
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        if not isinstance(error, BrokerError) or error.code is not code:
            return error
        settings = self._cluster.settings
        who, resource = settings.security.principal, f"Group:{self.group}"
        return denied(code, who, "READ", resource, settings.alias)
