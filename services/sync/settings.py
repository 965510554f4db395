"""Settings of sync: the `services.sync` subtree of the estate file."""

from __future__ import annotations

from mirrorfleet.syncing.settings import SyncSettings, parse

__all__ = ["SyncSettings", "parse"]
