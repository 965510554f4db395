"""What must change on a target so that its topics and its catalog are as the rules say. No I/O.

`sync` carries it out. Nothing here asks a broker or knows the time.
"""
