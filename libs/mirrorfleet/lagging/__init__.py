"""How late each partition is, and why: pure arithmetic over what was seen of both ends."""
