"""Identities, errors and ports that every layer shares. Imports nothing of ours and no I/O."""
