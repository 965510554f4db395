"""Keeps a fleet's target topics and its catalog in step with the rules and the sources."""
