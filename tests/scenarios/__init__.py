"""Situations that operators of MirrorMaker 2 meet, one file each, named by id.

Each says what the situation is, what MirrorMaker 2 does in it and what is promised here, and then
does it to real brokers. `make test-scenarios` runs them all.
"""
