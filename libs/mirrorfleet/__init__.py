"""mirrorfleet: the library behind the fleet; the only code that programs import."""

from mirrorfleet import older_python

__version__ = "0.1.0"

older_python.mend()
