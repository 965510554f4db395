"""The mirror: copies the partitions of a fleet's slots, exactly once."""
