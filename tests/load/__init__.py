"""The traffic maker: seeded, paced, mixed Kafka traffic, in a process of its own.

Pure: `recipes` (what records look like), `tally` (what was made). Does I/O: `lanes` (one producer
of librdkafka each), `batched` (whole batches), `making` (all lanes together), `__main__` (the
command). Tests start it as a process through `tests/faultkit/traffic.py`.
"""
