"""The checkpoint service: groups find their place on the target; keeps the offset map small."""
