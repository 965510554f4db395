"""The traffic maker: seeded, paced, mixed Kafka traffic from librdkafka, in a process of its own.

Pure: `recipes` (what records look like), `tally` (what was made). Does I/O: `lanes` (one producer
each), `making` (all lanes together), `__main__` (the command). Tests start it as a process through
`tests/faultkit/traffic.py`.
"""
