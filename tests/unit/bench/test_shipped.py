"""What is measured has no module that is installed for tests alone."""

from __future__ import annotations

import subprocess
import sys

from tests.bench.shipped import AS_SHIPPED

LOOK = """
import sys
from tests.bench import shipped
shipped.hide()
import services.mirror.service
print(*(name for name, made in sys.modules.items() if "hypothesis" in name and made))
"""


def test_a_measured_service_has_no_module_of_the_tests() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)

    assert done.stdout.split() == []
    assert AS_SHIPPED == ("tests.bench.shipped",)
