"""`python -m services.sync --estate FILE --target ALIAS`."""

from __future__ import annotations

from mirrorfleet.runtime.entry import Program, run
from services.sync.service import build

if __name__ == "__main__":
    raise SystemExit(run(Program(name="sync", build=build, http_port=8130)))
