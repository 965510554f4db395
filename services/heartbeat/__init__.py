"""The heartbeat service: says once a second, on Kafka itself, that a link is served."""
