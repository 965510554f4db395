"""The console: what every fleet of the estate told, as live pages and JSON. Reads only."""
