"""`python -m services.mirror --estate FILE --target ALIAS`."""

from __future__ import annotations

from mirrorfleet.runtime.entry import Program, run
from services.mirror.service import build

if __name__ == "__main__":
    raise SystemExit(run(Program(name="mirror", build=build, http_port=8110)))
