"""What is tested and measured has no module that is installed for tests alone."""

from __future__ import annotations

import subprocess
import sys

from tests.faultkit.program import AS_SHIPPED

LOOK = """
import sys
from tests.faultkit import program
program.hide()
import services.mirror.service
print(*(name for name, made in sys.modules.items() if "hypothesis" in name and made))
"""


def test_a_service_has_no_module_of_the_tests() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_service_of_a_test_is_run_with_its_arguments() -> None:
    command = [sys.executable, "-m", *AS_SHIPPED, "services.mirror", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--estate" in done.stdout
