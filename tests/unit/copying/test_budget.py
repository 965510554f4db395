from __future__ import annotations

from mirrorfleet.copying.budget import FrameLease, MemoryBudget


def test_a_reservation_waits_until_enough_is_released() -> None:
    budget = MemoryBudget(150)
    account = budget.account()
    granted: list[str] = []
    account.reserve(80, lambda: granted.append("first"))
    account.reserve(40, lambda: granted.append("second"))

    assert granted == ["first"]
    account.release(80)

    assert granted == ["first", "second"]
    assert budget.used == 40


def test_however_many_have_a_backlog_memory_is_left_for_who_has_nothing_yet() -> None:
    budget = MemoryBudget(8_000)  # 7,000 for frames
    backlogs = [budget.account() for _ in range(5)]
    for _ in range(100):
        for each in backlogs:
            each.reserve(50, lambda: None)

    assert all(1_200 <= each.held <= 1_350 for each in backlogs)  # about 2 / 11 of 7,000
    granted: list[int] = []
    budget.account().reserve(500, lambda: granted.append(500))
    assert granted == [500]


def test_one_backlog_alone_has_two_thirds_and_is_told_how_much_it_may_ask_for() -> None:
    budget = MemoryBudget(8_000)
    account = budget.account()
    assert account.within(9_000, least=100) == 7_000
    account.reserve(4_600, lambda: None)
    assert account.within(4_600, least=100) == 200
    assert account.within(4_600, least=300) == 300
    assert budget.for_one == 4_666


def test_what_becomes_free_goes_to_who_holds_least() -> None:
    budget = MemoryBudget(100)
    behind, live = budget.account(), budget.account()
    granted: list[str] = []
    behind.reserve(80, lambda: granted.append("backlog"))
    behind.reserve(60, lambda: granted.append("more backlog"))
    live.reserve(20, lambda: granted.append("live"))

    assert granted == ["backlog"]
    behind.resize(80, 60)

    assert granted == ["backlog", "live"]
    assert (behind.held, live.held) == (60, 20)


def test_nobody_overtakes_a_larger_reservation_that_came_first() -> None:
    budget = MemoryBudget(100)
    account = budget.account()
    granted: list[str] = []
    account.reserve(60, lambda: granted.append("holder"))
    account.reserve(80, lambda: granted.append("large"))
    account.reserve(10, lambda: granted.append("small"))

    assert granted == ["holder"]


def test_an_eighth_is_never_given_to_frames() -> None:
    budget = MemoryBudget(80)
    account = budget.account()
    granted: list[str] = []
    account.reserve(40, lambda: granted.append("up to the share"))
    budget.account().reserve(30, lambda: granted.append("all but the share"))
    budget.account().reserve(1, lambda: granted.append("into the share"))

    assert granted == ["up to the share", "all but the share"]
    assert budget.has_room(10)
    assert not budget.has_room(11)


def test_one_frame_larger_than_the_whole_budget_passes_alone() -> None:
    budget = MemoryBudget(100)
    account = budget.account()
    granted: list[str] = []

    account.reserve(500, lambda: granted.append("huge"))

    assert granted == ["huge"]


def test_a_withdrawn_reservation_is_never_granted() -> None:
    budget = MemoryBudget(10)
    account = budget.account()
    granted: list[str] = []

    def waiting() -> None:
        granted.append("waiting")

    account.reserve(10, lambda: None)
    account.reserve(10, waiting)

    assert budget.withdraw(waiting)
    account.release(10)
    assert granted == []
    assert budget.used == 0


def test_a_frame_is_freed_whole_when_its_last_batch_is_done() -> None:
    budget = MemoryBudget(100)
    account = budget.account()
    account.resize(0, 70)
    lease = FrameLease(account, 70)
    lease.hold()
    lease.hold()
    lease.done()  # the walk
    lease.done()

    assert budget.used == 70
    lease.done()

    assert budget.used == 0
