"""A fault after which a partition stands for too long fails its drill."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, cast

import pytest

from tests.faults.regions.drill import RECOVERED_S, Drill, Fault

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faultkit.process import ServiceProcess


@pytest.mark.parametrize(
    ("stall_s", "said"),
    [
        (10.0 + RECOVERED_S - 0.1, ""),
        (10.0 + RECOVERED_S + 0.1, r"leader killed: stood 70\.1 s"),
        (None, "leader killed: nobody looked"),
    ],
)
def test_a_partition_may_stand_a_minute_longer_than_the_fault(
    tmp_path: Path, stall_s: float | None, said: str
) -> None:
    sync = cast("ServiceProcess", None)
    it = Drill("d", {}, tmp_path, ExitStack(), ["orders:1"], tmp_path, sync)
    it.faults.append(Fault("leader killed", 1_000, ended_ms=11_000, stall_s=stall_s))

    if said:
        with pytest.raises(AssertionError, match=said):
            it.check_recovered()
    else:
        it.check_recovered()
