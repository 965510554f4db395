"""Kafka bytes, sans-IO: record batches, and the two requests that carry them."""
