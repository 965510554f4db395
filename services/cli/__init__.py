"""The command `mirrorfleet`: reads the estate and the control topics, and starts services."""
