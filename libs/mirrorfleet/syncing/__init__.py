"""Bringing a target in step with its sources: looked at, planned, changed, reported.

`services/sync` does it for ever, `mirrorfleet plan` and `mirrorfleet apply` do it once. What must
change is decided in `planning`; here it is carried out.
"""
