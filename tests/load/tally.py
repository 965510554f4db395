"""What the traffic maker made: records per partition by what became of them.

Pure. `committed` records were acknowledged by all replicas in sync, outside a transaction or in a
committed one. `aborted` ones never count. `unknown` ones were sent, or were to be committed,
without an answer: they may be in the log or not, so the log is the truth, `committed` its lower
bound, and both together its upper one.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

At = tuple[str, int]


@dataclass(slots=True)
class Tally:
    """Counts of one lane or of all."""

    committed: Counter[At] = field(default_factory=Counter)
    aborted: Counter[At] = field(default_factory=Counter)
    unknown: Counter[At] = field(default_factory=Counter)
    transactions_committed: int = 0
    transactions_aborted: int = 0
    seconds: float = 0.0

    @property
    def records(self) -> int:
        """Committed records of all partitions."""
        return self.committed.total()

    def add(self, other: Tally) -> None:
        """Add the counts of another lane."""
        self.committed.update(other.committed)
        self.aborted.update(other.aborted)
        self.unknown.update(other.unknown)
        self.transactions_committed += other.transactions_committed
        self.transactions_aborted += other.transactions_aborted

    def to_json(self) -> str:
        """One line that `from_json` reads again."""
        return json.dumps(
            {
                "records": self.records,
                "seconds": round(self.seconds, 3),
                "committed": _plain(self.committed),
                "aborted": _plain(self.aborted),
                "unknown": _plain(self.unknown),
                "transactions_committed": self.transactions_committed,
                "transactions_aborted": self.transactions_aborted,
            }
        )

    @classmethod
    def from_json(cls, line: str) -> Tally:
        """Read what `to_json` wrote."""
        fields = json.loads(line)
        return cls(
            committed=_counter(fields["committed"]),
            aborted=_counter(fields["aborted"]),
            unknown=_counter(fields["unknown"]),
            transactions_committed=fields["transactions_committed"],
            transactions_aborted=fields["transactions_aborted"],
            seconds=fields["seconds"],
        )


def _plain(counter: Counter[At]) -> dict[str, int]:
    return {f"{topic}:{number}": n for (topic, number), n in sorted(counter.items())}


def _counter(plain: dict[str, int]) -> Counter[At]:
    counter: Counter[At] = Counter()
    for place, n in plain.items():
        topic, _, number = place.rpartition(":")
        counter[topic, int(number)] = n
    return counter
