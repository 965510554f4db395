"""Ids that end or expire, formats, replicas by rack: what only time or another build brings."""
