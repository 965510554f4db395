"""Processes that outlive their starter are found again, and never mistaken for others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.demo import detached
from tests.demo.detached import Detached
from tests.faultkit.waiting import wait_until

ENDLESS = "import signal; print('here', flush=True); signal.pause()"


def started(tmp_path: Path, code: str) -> Detached:
    log = tmp_path / "it.log"
    process = detached.start([sys.executable, "-c", code], log=log, directory=tmp_path)
    wait_until(log.read_text, deadline_s=10, what="a first line")
    return process


def test_a_saved_process_is_found_again_and_ended(tmp_path: Path) -> None:
    file = tmp_path / "processes.json"
    detached.save({"it": started(tmp_path, ENDLESS)}, file)
    found = detached.load(file)["it"]
    before = found.runs
    found.stop()
    assert (before, found.runs) == (True, False)
    found.stop()


def test_a_process_of_the_same_id_that_began_at_another_time_is_not_ours(tmp_path: Path) -> None:
    process = started(tmp_path, ENDLESS)
    other = Detached(process.pid, process.started - 1)
    assert not other.runs
    other.stop()
    assert process.runs
    process.stop()


def test_it_outlives_its_starter(tmp_path: Path) -> None:
    file, log = tmp_path / "processes.json", tmp_path / "it.log"
    code = (
        "import sys; from pathlib import Path; from tests.demo import detached\n"
        f"p = detached.start([sys.executable, '-c', {ENDLESS!r}], log=Path({str(log)!r}),"
        f" directory=Path('.'))\n"
        f"detached.save({{'it': p}}, Path({str(file)!r}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
    process = detached.load(file)["it"]
    wait_until(log.read_text, deadline_s=10, what="a first line")
    before = process.runs
    process.stop()
    assert (before, process.runs) == (True, False)


def test_nothing_is_found_where_nothing_was_saved(tmp_path: Path) -> None:
    assert detached.load(tmp_path / "processes.json") == {}
