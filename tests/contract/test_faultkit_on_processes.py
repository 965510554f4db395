"""The process kit on real processes: signals arrive, logs are kept, nothing is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faultkit.process import DiedError, RunningProcess, ServiceProcess
from tests.faultkit.waiting import NotInTimeError, wait_until

ENDLESS = "import signal; print('here', flush=True); signal.pause()"
SERVER = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        self.send_response(200 if self.path == '/status' or Handler.asked > 2 else 503)
        self.end_headers()
        self.wfile.write(json.dumps({'path': self.path}).encode())
    def log_message(self, *arguments): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
print('not json with "url"', flush=True)
print(json.dumps({'url': 'http://127.0.0.1:%d' % server.server_port}), flush=True)
server.serve_forever()
"""


def running(tmp_path: Path, code: str) -> RunningProcess:
    process = RunningProcess("it", [sys.executable, "-c", code], log=tmp_path / "it.log")
    wait_until(process.text, deadline_s=10, what="a first line")
    return process


def test_a_killed_process_is_gone_with_the_signal_as_its_exit_code(tmp_path: Path) -> None:
    process = running(tmp_path, ENDLESS)
    process.kill()
    assert process.exit_code == -signal.SIGKILL
    with pytest.raises(DiedError, match=r"it ended with -9\n--- it .*\nhere"):
        process.check_alive()


def test_what_a_killed_process_leaves_lies_beside_its_log(tmp_path: Path) -> None:
    code = "import tempfile; print(tempfile.mkdtemp(), flush=True); import signal; signal.pause()"
    process = running(tmp_path, code)
    process.kill()
    left = Path(process.text().strip())
    assert left.is_dir()
    assert left.is_relative_to(process.log.parent)


def test_a_frozen_process_does_not_end_on_sigterm_until_it_is_thawed(tmp_path: Path) -> None:
    process = running(tmp_path, ENDLESS)
    try:
        process.freeze()
        process.terminate()
        with pytest.raises(DiedError, match=r"it still runs after 0\.2 s"):
            process.wait_exit(0.2)
        process.thaw()
        assert process.wait_exit(10) == -signal.SIGTERM
    finally:
        process.clean_up()


def test_a_frozen_process_is_cleaned_up(tmp_path: Path) -> None:
    process = running(tmp_path, ENDLESS)
    process.freeze()
    process.clean_up()
    assert process.exit_code == -signal.SIGKILL


def test_a_second_run_continues_the_log_and_reads_only_its_own_lines(tmp_path: Path) -> None:
    running(tmp_path, ENDLESS).clean_up()
    second = running(tmp_path, ENDLESS)
    second.clean_up()
    assert (second.text(), second.log.read_text()) == ("here\n", "here\nhere\n")


def test_the_process_dies_with_the_one_that_started_it(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.faultkit.process import RunningProcess\n"
        f"p = RunningProcess('it', [sys.executable, '-c', {ENDLESS!r}], log=Path(sys.argv[1]))\n"
        "print(p.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "it.log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        wait_until((tmp_path / "it.log").read_text, deadline_s=10, what="a first line")
    finally:
        parent.kill()
        parent.communicate()
    gone = Path(f"/proc/{pid}/cmdline")
    wait_until(
        lambda: not gone.exists() or not gone.read_bytes(), deadline_s=10, what="the child to end"
    )


def test_a_service_is_found_by_the_address_in_its_log_and_waited_for(tmp_path: Path) -> None:
    service = ServiceProcess("it", [sys.executable, "-c", SERVER], log=tmp_path / "it.log")
    try:
        service.wait_ready(20)
        assert service.status() == {"path": "/status"}
    finally:
        service.clean_up()


def test_a_service_that_ends_before_it_listens_is_told_with_its_log(tmp_path: Path) -> None:
    service = ServiceProcess(
        "it", [sys.executable, "-c", "raise SystemExit('no estate')"], log=tmp_path / "it.log"
    )
    with pytest.raises((DiedError, NotInTimeError), match="no estate"):
        service.wait_url(20)
