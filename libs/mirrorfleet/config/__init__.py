"""The estate file: models, loading, redaction, and what a client needs of it."""
