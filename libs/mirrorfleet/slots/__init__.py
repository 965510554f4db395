"""The I/O of a slot: take it, fetch, send, commit, heal. Decisions are in `mirrorfleet.copying`."""
