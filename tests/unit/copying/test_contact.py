"""Slots go to workers that reach their source, and a cut that all workers share moves none."""

from __future__ import annotations

import random
from collections.abc import Iterable
from math import inf
from typing import NamedTuple

import pytest

from mirrorfleet.copying.contact import OFTEN_S, OTHERS_S, OWN_S, STEADY_MOST_S, STEADY_S, Contact
from mirrorfleet.copying.sharing import share
from mirrorfleet.records.members import NO_SLOTS, Claim, Slots
from tests.unit.copying.making import slots

ALL = slots(0, 1, 2, 3, 4, 5, 6, 7)
STEP_S = 0.5
NOTICED_S = 6.0
"""Workers notice the end and the return of a source so far apart."""


def reached(contact: Contact, now: float) -> tuple[bool, bool]:
    """For slots of ours, and for those of others."""
    return contact.is_reached(now, is_own=True), contact.is_reached(now, is_own=False)


def answers(contact: Contact, begin: float, end: float) -> None:
    """It answers each second in between."""
    for second in range(int(begin), int(end) + 1):
        contact.heard(float(second))


def test_a_short_silence_changes_nothing_and_own_slots_are_given_up_last() -> None:
    contact = Contact(0.0)
    assert reached(contact, OTHERS_S) == (True, True)
    assert reached(contact, OTHERS_S + 1) == (True, False)
    assert reached(contact, OWN_S) == (True, False)
    assert reached(contact, OWN_S + 1) == (False, False)


def test_a_source_that_is_back_is_kept_for_at_once_and_claimed_after_a_while() -> None:
    contact = Contact(0.0)
    contact.heard(100.0)
    assert reached(contact, 100.0) == (True, False)
    answers(contact, 101, 100 + STEADY_S - 1)
    assert reached(contact, 100 + STEADY_S - 1) == (True, False)
    contact.heard(100 + STEADY_S)
    assert reached(contact, 100 + STEADY_S) == (True, True)


def claimed_after(contact: Contact, now: float) -> float:
    """Seconds of answers until it is claimed."""
    for passed in range(1000):
        contact.heard(now + passed)
        if contact.is_reached(now + passed, is_own=False):
            return float(passed)
    return inf


def test_who_loses_it_again_and_again_claims_it_later_and_later_and_not_for_ever() -> None:
    contact, now, waits = Contact(0.0), 0.0, []
    for _ in range(7):
        now += OWN_S + 1
        waits.append(claimed_after(contact, now))
        now += waits[-1]
    assert waits == [20.0, 40.0, 80.0, 160.0, 320.0, STEADY_MOST_S, STEADY_MOST_S]
    answers(contact, now, now + OFTEN_S)
    assert claimed_after(contact, now + OFTEN_S + OWN_S) == STEADY_S


def test_time_in_which_the_worker_itself_stood_is_no_silence() -> None:
    contact = Contact(0.0)
    contact.slept(600.0)
    assert reached(contact, 600.0 + OTHERS_S) == (True, True)
    contact.heard(600.0 + OTHERS_S)
    assert reached(contact, 600.0 + OTHERS_S) == (True, True)
    assert reached(contact, 600.0 + 2 * OTHERS_S + 1) == (True, False)


class Cut(NamedTuple):
    """When a source is away, from whom."""

    begin: float
    end: float
    names: str = "abc"


class Group:
    """Workers that claim as their contact is, and are given what the group says, for a while."""

    def __init__(self, cuts: Iterable[Cut], seed: int) -> None:
        self.now, self.moved = 0.0, 0
        self._contacts = {name: Contact(0.0) for name in "abc"}
        dice = random.Random(seed)
        self._silent = {
            name: [
                (one.begin + dice.uniform(0.0, NOTICED_S), one.end + dice.uniform(0.0, NOTICED_S))
                for one in cuts
                if name in one.names
            ]
            for name in self._contacts
        }
        self.held: dict[str, Slots] = dict.fromkeys(self._contacts, NO_SLOTS)
        self._share_out()

    def run(self, until: float) -> None:
        while self.now < until:
            self.now += STEP_S
            for name, contact in self._contacts.items():
                if not any(begin <= self.now < end for begin, end in self._silent[name]):
                    contact.heard(self.now)
            if self._claimed != self._claims():
                self._share_out()

    def _claims(self) -> dict[str, Claim]:
        return {name: self._claim(name) for name in self.held}

    def _claim(self, name: str) -> Claim:
        held, contact = self.held[name], self._contacts[name]
        busy = frozenset(s for s in ALL if contact.is_reached(self.now, is_own=s in held))
        return Claim(0, held, ALL, busy, away=ALL - busy)

    def _share_out(self) -> None:
        self._claimed = self._claims()
        for name, found in share(self._claimed).items():
            self.moved += len(found.handed)
            self.held[name] = found.slots


SEEDS = pytest.mark.parametrize("seed", range(20))


@SEEDS
@pytest.mark.parametrize("lasts_s", [10, 17, 22, 26, 30, 34, 45, 300])
def test_a_source_that_is_away_from_all_for_however_long_moves_no_slot(
    lasts_s: int, seed: int
) -> None:
    group = Group([Cut(100, 100 + lasts_s)], seed)
    group.run(600)
    assert group.moved == 0


@SEEDS
def test_what_one_worker_cannot_reach_is_with_the_others_within_40_s_and_comes_back_once(
    seed: int,
) -> None:
    group = Group([Cut(100, 200, "b")], seed)
    shared, lost = sorted(map(len, group.held.values())), len(group.held["b"])
    group.run(120)
    assert group.moved == 0
    group.run(140)
    assert (group.moved, group.held["b"]) == (lost, NO_SLOTS)
    group.run(200)
    assert group.moved == lost
    group.run(1000)
    assert sorted(map(len, group.held.values())) == shared
    assert group.moved <= 2 * lost


@SEEDS
def test_a_worker_whose_line_comes_and_goes_is_given_no_slots_in_the_end(seed: int) -> None:
    """Each minute it is away for 35 s."""
    group = Group([Cut(begin, begin + 35, "b") for begin in range(30, 3_600, 60)], seed)
    group.run(300)
    moved = group.moved
    group.run(3_600)
    assert (group.moved, group.held["b"]) == (moved, NO_SLOTS)
