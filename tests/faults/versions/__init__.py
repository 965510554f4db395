"""Every version against every other, and Kafka's own bars of exactly once."""
