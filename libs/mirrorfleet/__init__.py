"""mirrorfleet: the library behind the fleet; the only code that programs import."""

__version__ = "0.1.0"
