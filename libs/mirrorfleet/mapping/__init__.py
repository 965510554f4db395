"""The offset map kept in Kafka: followed, packed, asked."""
