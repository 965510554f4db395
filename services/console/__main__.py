"""`python -m services.console --estate FILE --target ALIAS`."""

from __future__ import annotations

from mirrorfleet.runtime.entry import Program, run
from services.console.service import build

if __name__ == "__main__":
    raise SystemExit(run(Program(name="console", build=build, http_port=8100)))
