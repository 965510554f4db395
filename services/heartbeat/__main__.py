"""`python -m services.heartbeat --estate FILE --target ALIAS`."""

from __future__ import annotations

from mirrorfleet.runtime.entry import Program, run
from services.heartbeat.service import build

if __name__ == "__main__":
    raise SystemExit(run(Program(name="heartbeat", build=build, http_port=8160)))
