"""Every check of the project; nothing outside imports it."""
