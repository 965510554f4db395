"""The judge: says whether a target topic is an exact copy of its source topic.

Independent of the product on purpose: it imports nothing of ours and reads with librdkafka, so that
a fault in our client cannot hide itself. Pure: `log`, `compare`, `difference`, `verdict`, `render`,
`stalls`.
Does I/O: `reading` (librdkafka), `judging` (reads and compares), `__main__` (the command).
"""
