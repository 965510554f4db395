"""How late every copied partition is, why, and until when."""
