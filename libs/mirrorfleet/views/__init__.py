"""What people are shown: pages and API answers, made from records and names alone. No I/O."""
