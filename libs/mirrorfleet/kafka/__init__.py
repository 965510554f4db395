"""Brokers: connections, authentication, lanes that fetch and produce, coordinators, admin."""
