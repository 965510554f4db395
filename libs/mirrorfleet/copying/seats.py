"""The connections to brokers far away that a process may have, shared by its slots. Pure.

    48 seats at a broker, wanted   47   3   47   47
                           given   15   3   15   15     the smallest wishes in full, equal shares of
                                                        the rest (max-min fairness)

Whoever comes first would have all of them otherwise, and keep them when its backlog is done. So one
that has more than its share gives one back after each piece, as long as another has less than its.
"""

from __future__ import annotations

from typing import Final

_ANY: Final = 1 << 30


def most_seats(fetch_connections: int, *, tls: bool) -> int:
    """How many there may be at a broker; under TLS, where each takes 0.7 MB, no more than few."""
    return min(fetch_connections, Table.FEW) if tls else fetch_connections


class Table:
    """One broker's."""

    __slots__ = ("_most", "_shares", "seats")

    FEW: Final = 48
    """Seats to begin with. More are of use where a window lets little through: else they only make
    pieces smaller, and each is a request."""

    def __init__(self, most: int) -> None:
        self._shares: list[Share] = []
        self.seats = 0
        self.allow(most)

    def allow(self, most: int) -> None:
        """There may be so many seats."""
        self._most = most
        self.seats = min(max(self.seats, self.FEW), most)

    def widen(self) -> None:
        """Somebody misses one to whom more are of use: twice as many."""
        self.seats = min(2 * self.seats, self._most)

    @property
    def is_wide(self) -> bool:
        """Whether there are as many as there may be."""
        return self.seats >= self._most

    def join(self) -> Share:
        """One slot more."""
        share = Share(self)
        self._shares.append(share)
        return share

    def leave(self, share: Share) -> None:
        """One slot less; its connections are closed, and count no more."""
        self._shares.remove(share)
        if not self._shares:
            self.seats = min(self.seats, self.FEW)

    @property
    def taken(self) -> int:
        """Seats of all slots."""
        return sum(each.taken for each in self._shares)

    @property
    def expected(self) -> int:
        """Seats that will be taken soon: all that are wanted, as far as there are so many."""
        return min(self.seats, sum(max(each.taken, each.wanted) for each in self._shares))

    @property
    def is_full(self) -> bool:
        """Whether no seat is free."""
        return self.taken >= self.seats

    @property
    def fair(self) -> int:
        """What each may have at least, if it wants so many."""
        return self._fair(0)

    @property
    def fair_at_most(self) -> int:
        """The same rounded up: by it alone many would leave seats free that do not divide."""
        return self._fair(1)

    def _fair(self, more: int) -> int:
        left, wishes = self.seats, sorted(each.wanted for each in self._shares)
        for number, wish in enumerate(wishes):
            equal, rest = divmod(left, len(wishes) - number)
            if wish > equal:
                return equal + min(rest, more)
            left -= wish
        return _ANY

    @property
    def is_short(self) -> bool:
        """Whether somebody has less than it wants and than what is fair."""
        fair = self.fair
        return any(each.taken < min(each.wanted, fair) for each in self._shares)


class Share:
    """One slot's seats at a broker; the connection that it has anyway is not counted."""

    __slots__ = ("_table", "taken", "wanted")

    def __init__(self, table: Table) -> None:
        self._table = table
        self.taken = self.wanted = 0

    def take(self) -> bool:
        """One more connection, if one is free and others have no better right to it."""
        table = self._table
        if table.is_full or self.taken >= table.fair_at_most:
            return False
        if self.taken >= table.fair and table.is_short:
            return False
        self.taken += 1
        return True

    def give_back(self) -> None:
        """A connection that was taken is closed."""
        self.taken -= 1

    @property
    def has_too_many(self) -> bool:
        """Whether one is to be given back, because somebody else has too few and none is free."""
        # Asked before each piece: what costs least, and says no most often, comes first.
        table = self._table
        return table.is_full and self.taken > min(self.wanted, table.fair) and table.is_short


class Seats:
    """All brokers' of a source."""

    __slots__ = ("_tables",)

    def __init__(self) -> None:
        self._tables: dict[int, Table] = {}

    def at(self, node: int, most: int) -> Table:
        """The connections to a broker, of which there may be `most`."""
        table = self._tables.setdefault(node, Table(most))
        table.allow(most)
        return table
