"""One active process of a service, the others ready to take over."""
