"""Whatever is lost on either side, and how often: no group is put past a record that it lacks.

The source, the target and what the fleet knows of both are plain lists, so that each answer is
compared with what a consumer would really read from there on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorfleet.core.ids import PartitionIdentity, SourceOffset, TargetOffset, TopicPartition
from mirrorfleet.offsets.copies import Copies
from mirrorfleet.offsets.index import OffsetIndex
from mirrorfleet.records.catalog import CatalogLoss
from mirrorfleet.records.segments import Run
from tests.unit.copying.making import TARGET_TOPIC, entry, identity

HERE, THERE = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
REMADE = "target-recreated"
KINDS = ("copy", "copy", "source-truncated", "rewound", "target-truncated", "accepted", REMADE)
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 9), st.integers(0, 2)), max_size=14
)


@dataclass
class World:
    """A source record is its history's number, None is no record.

    A target record is (source offset, history, incarnation that copied it).
    """

    source: list[int | None] = field(default_factory=list)
    target: list[tuple[int, int | None, int] | None] = field(default_factory=list)
    runs: list[list[Run]] = field(default_factory=lambda: [[]])
    losses: list[CatalogLoss | None] = field(default_factory=lambda: [None])
    position: int = 0
    history: int = 0

    def step(self, kind: str, size: int, gap: int) -> None:
        if kind == "copy":
            self._copy(size, gap)
        elif kind in {"source-truncated", "rewound"}:
            to = max(0, self.position - size)
            if kind == "source-truncated":
                del self.source[to:]
                self.history += 1
            self._anew(kind, to, to)
        elif kind == REMADE:
            self._cut_target(0, kind, accepts=size % 2 > 0)
        else:
            to = max(0, len(self.target) - size)
            self._cut_target(to, "target-truncated", accepts=kind == "accepted")

    def truth(self) -> list[tuple[int, int]]:
        """What is copied of the source as it is now, as (source, target).

        A copy from where a loss is said to begin counts no more: it is made anew, or given up.
        """
        now, found = self.source[: self.position], []
        for at, record in enumerate(self.target):
            if record is not None:
                source, history, incarnation = record
                later = [loss.first for loss in self.losses[incarnation + 1 :] if loss is not None]
                parted = any(first is not None and first <= source for first in later)
                if not parted and now[source : source + 1] == [history]:
                    found.append((source, at))
        return found

    def copies(self, forgotten: set[int] | None = None) -> Copies:
        """What is known; without the map of a forgotten incarnation, or the loss that began it.

        Of one that copied nothing there is no map, unless nothing at all is forgotten.
        """
        index, last = OffsetIndex(), len(self.runs) - 1
        losses: dict[PartitionIdentity, CatalogLoss] = {}
        for number, runs in enumerate(self.runs):
            loss = self.losses[number]
            if forgotten is None or number == last or (runs and 2 * number not in forgotten):
                index.add(self.identity(number), runs)
            if loss is not None and (forgotten is None or 2 * number + 1 not in forgotten):
                losses[self.identity(number)] = loss
        now = entry(identity=self.identity(last), loss=self.losses[last])
        return Copies([now], index, losses)

    def identity(self, incarnation: int) -> PartitionIdentity:
        """With the id that the target topic had then."""
        begun = self.losses[: incarnation + 1]
        made = sum(loss is not None and loss.cause == REMADE for loss in begun)
        topic = UUID(int=TARGET_TOPIC.int + made)
        return replace(identity(), target_topic_id=topic, incarnation=incarnation)

    def _copy(self, size: int, gap: int) -> None:
        """What is new at the source begins with `gap` offsets that are no records."""
        begin, end = self.position, self.position + gap + size
        new = max(0, end - len(self.source))
        self.source += ([None] * gap + [self.history] * size)[:new]
        self.target += [None] * gap
        for at in range(begin, end):
            if self.source[at] is not None:
                there = TargetOffset(len(self.target))
                self.runs[-1].append(Run(SourceOffset(at), SourceOffset(at + 1), there))
                self.target.append((at, self.source[at], len(self.runs) - 1))
        self.position = end

    def _cut_target(self, to: int, cause: str, *, accepts: bool) -> None:
        """What is gone is asked of the last map alone, as a worker does."""
        del self.target[to:]
        gone = [
            run.source_start + max(0, to - run.target_start)
            for run in self.runs[-1]
            if run.target_end > to
        ]
        first = min(gone, default=self.position)
        self._anew(cause, first, self.position if accepts else first)

    def _anew(self, cause: str, first: int, to: int) -> None:
        self.losses.append(CatalogLoss(cause=cause, first=first, end=max(first, self.position)))
        self.runs.append([])
        self.position = to


def world(steps: list[tuple[str, int, int]]) -> World:
    made = World()
    for step in steps:
        made.step(*step)
    while not made.runs[-1]:
        made.step("copy", 3, 0)
    return made


@settings(max_examples=150)
@given(steps=STEPS, forgotten=st.sets(st.integers(0, 20), max_size=4))
def test_no_record_that_a_group_lacks_is_behind_it_however_much_is_forgotten(
    steps: list[tuple[str, int, int]], forgotten: set[int]
) -> None:
    made = world(steps)
    copies, truth = made.copies(forgotten), made.truth()

    for asked in range(len(made.source) + 2):
        found = copies.to_target(HERE, asked)
        assert found is not None
        lacking = [at for source, at in truth if source >= asked]
        assert found.offset <= min(lacking, default=len(made.target)), asked
    for asked in range(len(made.target) + 2):
        back = copies.to_source(THERE, asked)
        assert back is not None
        unread = [source for source, at in truth if at >= asked]
        assert back.offset <= min(unread, default=len(made.source)), asked


@settings(max_examples=80)
@given(steps=STEPS)
def test_no_group_reads_again_what_it_has_where_all_maps_are_known(
    steps: list[tuple[str, int, int]],
) -> None:
    made = world(steps)
    copies, truth = made.copies(), made.truth()
    there = {at: source for source, at in truth}

    for asked in range(len(made.source) + 1):
        found = copies.to_target(HERE, asked)
        assert found is not None
        assert there.get(found.offset, asked) >= asked
