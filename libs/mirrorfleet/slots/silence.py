"""What leaders say of the producers of their partitions, and those that say nothing.

    settle, between two transactions ── no answer ──> asked beside the copying, until one comes
       ^                                                             │
       └──────────── asks itself, and acts on what it hears ─────────┘

A leader out of reach takes the whole time of a look, which the other partitions of its slot cannot
wait for again and again. What is heard beside the copying decides nothing: it may be old when
something can be done about it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mirrorfleet.core.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLostError,
    DeadlineError,
)
from mirrorfleet.kafka.inspection import describe_producers
from mirrorfleet.kafka.together import all_of
from mirrorfleet.runtime.log import fields, logger

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mirrorfleet.core.ids import TopicPartition
    from mirrorfleet.kafka.each import Results
    from mirrorfleet.kafka.inspection import ActiveProducer
    from mirrorfleet.slots.runner import SlotRunner

LOOK_S: Final = 2.0
"""For one look; one that all the slot waits for is taken again after as long."""
PAUSE_S: Final = 1.0
"""Between two looks beside the copying."""
REFUSED_S: Final = 10.0
"""Where a broker does not let us in: each look is a login, and many may lock the account."""

_log = logger(__name__)


async def producers_of(
    runner: SlotRunner, led: Sequence[TopicPartition], refused: dict[int, float] | None = None
) -> Results[TopicPartition, list[ActiveProducer]]:
    """What the leaders say; one out of reach leaves out only its own partitions, and so does one
    that does not let us in (its certificate is old, say). `refused`: until when (monotonic seconds)
    such a one is not asked.
    """
    now, shut = runner.clock.monotonic(), {} if refused is None else refused
    by_node: dict[int, list[TopicPartition]] = {}
    for at in led:
        leader = runner.targets.of(*at)
        if leader is not None and shut.get(leader.node, 0.0) <= now:
            by_node.setdefault(leader.node, []).append(at)
    answers: dict[TopicPartition, list[ActiveProducer] | BrokerError] = {}

    async def ask(node: int, some: list[TopicPartition]) -> None:
        try:
            answers.update(await describe_producers(runner.target, some, deadline_s=LOOK_S))
        except (ConnectionLostError, DeadlineError):
            return
        except AuthenticationError as error:
            _log.warning("broker %d is left out", node, extra=fields(error=str(error)))
            shut[node] = runner.clock.monotonic() + REFUSED_S

    await all_of(ask(*each) for each in by_node.items())
    return answers


class Silent:
    """Partitions in doubt whose leaders did not answer when they were asked last."""

    def __init__(self, runner: SlotRunner) -> None:
        self._runner = runner
        self.partitions: set[TopicPartition] = set()
        self._asking: asyncio.Task[None] | None = None
        self._refused: dict[int, float] = {}

    def add(self, some: Collection[TopicPartition]) -> None:
        """They did not answer: their leaders may be others."""
        self._runner.targets.ask()
        if self._runner.tasks is not None:
            self.partitions.update(some)

    def ask(self) -> None:
        """See that they are asked; what asked for them ends when the slot is taken again."""
        tasks = self._runner.tasks
        is_asking = self._asking is not None and not self._asking.done()
        if self.partitions and tasks is not None and not is_asking:
            self._asking = tasks.create_task(self._ask(), name=f"silent:{self._runner.number}")

    async def _ask(self) -> None:
        while self.partitions:
            answers = await producers_of(self._runner, sorted(self.partitions), self._refused)
            heard = {at for at, answer in answers.items() if not _is_for_now(answer)}
            if not heard.isdisjoint(self.partitions):
                self.partitions -= heard
                self._runner.wake()
            if self.partitions:
                self._runner.targets.ask()
                await asyncio.sleep(PAUSE_S)


def _is_for_now(answer: list[ActiveProducer] | BrokerError) -> bool:
    return isinstance(answer, BrokerError) and answer.retriable
