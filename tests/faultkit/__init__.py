"""Tools for tests that wait, break and measure running things. No product code imports this."""
