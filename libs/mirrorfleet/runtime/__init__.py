"""What every service needs to run: its life, its health, HTTP, metrics, log. Knows no Kafka."""
